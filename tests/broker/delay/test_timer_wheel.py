"""Timers change hands with RocketMQ: what waits and what was delivered, in its own files."""

from __future__ import annotations

from struct import unpack_from

import pytest

from flaremq.broker.delay.timer import TimerService
from flaremq.broker.delay.timer_wheel import CHECK, UNIT, TimerCheck, TimerWheelFiles, WaitingTimer
from flaremq.message.topics import TIMER_TOPIC
from tests.broker.waiting_lab import ROOT, WaitingLab, run, timer
from tests.support.crash_fs import CrashFS

PRECISION_MS = 1000
CHECK_FILE = f"{ROOT}/config/timercheck"


def use_log_files_of(lab: WaitingLab, size: int) -> None:
    """As RocketMQ was told to make them."""
    lab.disk.make_directories(f"{ROOT}/timerlog")
    file = lab.disk.open(f"{ROOT}/timerlog/{size:020d}", create=True)
    file.resize(size)
    file.close()


def stop(lab: WaitingLab, service: TimerService) -> WaitingLab:
    assert run(service.persist())
    run(service.hand_over())
    service.close()
    return lab.restart()


def forget_ours(lab: WaitingLab) -> None:
    """As if we had never been here: only RocketMQ's files tell what waits."""
    lab.disk.remove(f"{ROOT}/flaremq.timer/state")


def check_of(disk: CrashFS) -> tuple[int, ...]:
    content = disk.files()[CHECK_FILE]
    assert len(content) == 4096
    return tuple(CHECK.unpack_from(content))


def units_of(disk: CrashFS, name: str = "0" * 20) -> list[tuple[int, ...]]:
    content = disk.files()[f"{ROOT}/timerlog/{name}"]
    found = []
    for at in range(0, len(content) - UNIT.size, UNIT.size):
        unit = UNIT.unpack_from(content, at)
        if unit[0] != UNIT.size:
            break
        found.append(unit)
    return found


def test_what_waits_is_taken_over_from_the_wheel_and_nothing_else() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(30):
        lab.send(b"%02d" % number, TIMER_DELAY_SEC=str(1 + number % 3))
    lab.clock.advance(1500)
    run(service.run_due())
    assert len(lab.bodies()) == 10
    lab = stop(lab, service)
    forget_ours(lab)
    service = timer(lab)
    assert service.waiting_count == 20
    lab.clock.advance(10_000)
    assert run(service.run_due()) == 20
    assert sorted(lab.bodies()) == [b"%02d" % number for number in range(30)]


@pytest.mark.slow
def test_check_names_the_first_slot_that_waits_and_the_next_queue_offset() -> None:
    lab = WaitingLab()
    service = timer(lab)
    due_ms = lab.clock.now_ms() + 5_400
    lab.send(b"a", TIMER_DELIVER_MS=str(due_ms))
    lab.send(b"b", TIMER_DELAY_SEC="1")
    lab.clock.advance(1000)
    assert run(service.run_due()) == 1
    records = lab.messages(TIMER_TOPIC)
    now_ms = lab.clock.now_ms()
    lab = stop(lab, service)
    read_ms, log_end, queue_offset, master_offset, *version = check_of(lab.disk)
    assert (read_ms, queue_offset, master_offset, version) == (now_ms, 2, 2, [0, now_ms, 1])
    units = units_of(lab.disk)
    assert log_end == len(units) * UNIT.size
    waiting, last = units
    assert (waiting[3] + waiting[4], waiting[5], waiting[6]) == (
        due_ms // 1000 * 1000,
        records[0].physical_offset,
        records[0].size,
    )
    # RocketMQ reads on behind the record of the last unit; that one was delivered, so its slot is over.
    assert (last[5], last[3] + last[4]) == (records[1].physical_offset, read_ms - PRECISION_MS)
    wheel = lab.disk.files()[f"{ROOT}/timerwheel"]
    slot = due_ms // 1000
    assert len(wheel) == 2 * 604_800 * 32
    assert unpack_from(">qqqii", wheel, slot % (2 * 604_800) * 32) == (slot, 0, 0, 1, 0)


def test_units_of_a_slot_are_chained_backwards_over_several_files() -> None:
    lab = WaitingLab()
    size = 3 * UNIT.size + 16 + 5
    use_log_files_of(lab, size)
    files = TimerWheelFiles(lab.disk, ROOT, PRECISION_MS)
    timers = [WaitingTimer(20_000 + 1_000 * (n % 2), 100 + n, 50, 7, False) for n in range(8)]
    check = files.next_check(8, [timer.slot_ms for timer in timers], len(timers), 10_500)
    files.write(timers, check, 10_500)
    assert lab.disk.list_directory(f"{ROOT}/timerlog") == [f"{n * size:020d}" for n in range(3)]
    read_ms, log_end = check_of(lab.disk)[:2]
    assert (read_ms, log_end) == (10_000, 2 * size + 2 * UNIT.size)
    positions = [n // 3 * size + n % 3 * UNIT.size for n in range(8)]
    units = [unit for n in range(3) for unit in units_of(lab.disk, f"{n * size:020d}")]
    assert [unit[1] for unit in units] == [-1, -1, *positions[:6]]
    content = lab.disk.files()[f"{ROOT}/timerlog/{0:020d}"]
    assert unpack_from(">iqi", content, 3 * UNIT.size) == (16 + 5, 0, -875286124)
    found = files.waiting(TimerCheck(21_000, log_end, 8))
    assert found is not None and list(found) == [(101, True), (103, True), (105, True), (107, True)]
    over = files.waiting(TimerCheck(22_000, log_end, 8))
    assert over is not None and list(over) == [(107, False)]


@pytest.mark.slow
def test_messages_taken_back_and_far_away_are_marked_as_rocketmq_marks_them() -> None:
    lab = WaitingLab()
    service = timer(lab)
    due_ms = lab.clock.now_ms() + 70 * 3_600_000
    lab.send(b"far", TIMER_DELIVER_MS=str(due_ms))
    lab.send(b"", TIMER_DELIVER_MS=str(due_ms - 69 * 3_600_000), TIMER_DEL_UNIQKEY="orders+x", UNIQ_KEY="k")
    run(service.run_due())
    lab = stop(lab, service)
    far, delete = units_of(lab.disk)
    assert (far[2], far[4]) == (1 | 2, 48 * 3_600_000)
    assert delete[2] == 1 | 4


@pytest.mark.slow
def test_what_rocketmq_delivered_since_we_stopped_is_not_delivered_again() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(4):
        lab.send(b"%d" % number, TIMER_DELAY_SEC=str(10 + 10 * number))
    run(service.run_due())
    lab = stop(lab, service)
    check = list(check_of(lab.disk))
    check[0] += 25_000  # it has delivered two of them and gone on
    lab.disk.overwrite(CHECK_FILE, CHECK.pack(*check).ljust(4096, b"\0"))
    lab.clock.advance(60_000)
    service = timer(lab)
    assert run(service.run_due()) == 2
    assert lab.bodies() == [b"2", b"3"]
    lab = lab.kill()
    assert run(timer(lab).run_due()) == 0


@pytest.mark.slow
def test_our_own_files_tell_us_nothing_new_when_we_start_again() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="1")
    lab.send(b"b", TIMER_DELAY_SEC="5")
    lab.clock.advance(1000)
    run(service.run_due())
    lab = stop(lab, service)
    service = timer(lab)
    lab.clock.advance(4000)
    assert run(service.run_due()) == 1
    lab = lab.kill()  # RocketMQ's files are older than our deliveries now
    service = timer(lab)
    assert run(service.run_due()) == 0
    assert lab.bodies() == [b"a", b"b"]


def test_death_while_the_files_are_written_repeats_and_loses_nothing() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(3):
        lab.send(b"%d" % number, TIMER_DELAY_SEC=str(1 + 4 * number))
    lab.clock.advance(1000)
    run(service.run_due())
    assert run(service.persist())
    use_log_files_of(lab, 4096)
    images: list[CrashFS] = []
    lab.disk.observer = lambda operation, path: images.append(lab.disk.kill()) if operation != "write" else None
    run(service.hand_over())
    lab.disk.observer = None
    assert len(images) > 5
    for image in images[::2]:
        after = WaitingLab(disk=image)
        after.clock.advance(lab.clock.now_ms() - after.clock.now_ms() + 9000)
        again = timer(after)
        assert run(again.run_due()) == 2
        assert after.bodies() == [b"0", b"1", b"2"]


def test_a_folder_in_the_place_of_a_file_of_rocketmq_does_not_spoil_a_clean_stop() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="1")
    run(service.run_due())
    lab.disk.make_directories(f"{ROOT}/timerwheel")
    lab = stop(lab, service)
    service = timer(lab)
    lab.clock.advance(1000)
    assert run(service.run_due()) == 1


# Of the time: its highest and lowest bits, half a minute, months; of the end of the log: one unit of four.
@pytest.mark.parametrize("bit", [0, 1, 22, 34, 48, 63, 120, 121])
def test_no_flipped_bit_of_rocketmqs_check_file_costs_a_message(bit: int) -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(4):
        lab.send(b"%d" % number, TIMER_DELAY_SEC=str(10 + 10 * number))
    run(service.run_due())
    lab = stop(lab, service)
    content = bytearray(lab.disk.files()[CHECK_FILE])
    content[bit // 8] ^= 0x80 >> bit % 8
    lab.disk.overwrite(CHECK_FILE, bytes(content))
    image = lab.disk.kill()
    for is_ours_lost in (False, True):
        after = WaitingLab(disk=image.kill())
        if is_ours_lost:
            forget_ours(after)
        again = timer(after)
        after.clock.advance(lab.clock.now_ms() - after.clock.now_ms() + 60_000)
        assert run(again.run_due()) == 4
        assert sorted(after.bodies()) == [b"0", b"1", b"2", b"3"]


# Of the queue offset, which is 4: to 5, 6, 0, far behind all records, negative.
@pytest.mark.parametrize("bit", [191, 190, 189, 150, 128])
def test_no_flipped_bit_of_the_queue_offset_passes_over_what_rocketmq_has_not_read(bit: int) -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(4):
        lab.send(b"%d" % number, TIMER_DELAY_SEC=str(10 + 10 * number))
    run(service.run_due())
    lab = stop(lab, service)
    for number in range(4, 7):
        lab.send(b"%d" % number, TIMER_DELAY_SEC="10")
    content = bytearray(lab.disk.files()[CHECK_FILE])
    content[bit // 8] ^= 0x80 >> bit % 8
    lab.disk.overwrite(CHECK_FILE, bytes(content))
    for is_ours_lost in (False, True):
        after = WaitingLab(disk=lab.disk.kill())
        if is_ours_lost:
            forget_ours(after)
        again = timer(after)
        after.clock.advance(lab.clock.now_ms() - after.clock.now_ms() + 60_000)
        assert run(again.run_due()) == 7
        assert sorted(after.bodies()) == [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("size", [0, 40, 16 + UNIT.size - 1])
def test_a_log_file_cut_short_does_not_say_how_long_the_next_ones_are(size: int) -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="1")
    run(service.run_due())
    use_log_files_of(lab, size)
    lab = stop(lab, service)
    assert check_of(lab.disk)[1] == UNIT.size
    assert len(lab.disk.files()[f"{ROOT}/timerlog/{0:020d}"]) == 100 << 20
    forget_ours(lab)
    service = timer(lab)
    lab.clock.advance(1000)
    assert run(service.run_due()) == 1


def test_store_without_timers_gets_no_timer_files() -> None:
    lab = WaitingLab()
    lab = stop(lab, timer(lab))
    assert not lab.disk.exists(CHECK_FILE)
    assert not lab.disk.exists(f"{ROOT}/timerwheel")
