"""Delay levels: in order, at least once, never early; whatever the clock, the disk and the messages do."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.broker.delay.arrival_marks import ArrivalMarks
from flaremq.broker.delay.levels import ScheduleService
from flaremq.clock import ManualClock
from flaremq.message.delay import parse_delay_levels
from flaremq.message.message import Message
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import HALF_TOPIC, SCHEDULE_TOPIC
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.status import PutMessageStatus
from tests.broker.delay.due_times import next_level_due
from tests.broker.waiting_lab import HOST, LEVELS, OPTIONS, ROOT, WaitingLab, run, running_store_loop, schedule
from tests.support.crash_fs import CrashFS

DEAD_LETTERS = f"%DLQ%{SCHEDULE_TOPIC}"
FILE = f"{ROOT}/config/delayOffset.json"


def test_message_is_delivered_when_its_delay_is_over_and_not_before() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.send(b"a", DELAY="2", KEYS="k")
    for _ in range(49):
        lab.clock.advance(100)
        assert run(service.run_due()) == 0
    lab.clock.advance(99)
    assert run(service.run_due()) == 0
    lab.clock.advance(1)
    assert run(service.run_due()) == 1
    assert run(service.run_due()) == 0
    (message,) = lab.messages()
    assert (message.body, message.queue_id, message.keys) == (b"a", 0, ["k"])


def test_delivered_record_keeps_the_properties_of_the_waiting_one_as_rocketmq_does() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.send(b"a", queue_id=3, DELAY="1", TAGS="t")
    lab.clock.advance(1000)
    run(service.run_due())
    (message,) = lab.messages(queue_id=3)
    assert message.properties == {
        "UNIQ_KEY": "a",
        "TAGS": "t",
        "DELAY": "1",
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
        **({"__CRC32#": message.properties["__CRC32#"]}),
    }
    assert message.born_timestamp == lab.clock.now_ms() - 1000


def test_a_level_above_the_highest_waits_as_long_as_the_highest() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.send(b"a", DELAY="99")
    lab.clock.advance(2 * 3_600_000 - 1)
    assert run(service.run_due()) == 0
    lab.clock.advance(1)
    assert run(service.run_due()) == 1


def test_messages_of_a_level_are_delivered_in_order_and_in_batches() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    expected = [b"%04d" % number for number in range(1500)]
    for body in expected:
        lab.send(body, DELAY="1")
    lab.clock.advance(1000)
    assert run(service.run_due()) == 1500
    assert lab.bodies() == expected


def test_levels_do_not_wait_for_each_other() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.send(b"late", DELAY="3")
    lab.send(b"soon", DELAY="1")
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies() == [b"soon"]
    lab.clock.advance(9000)
    run(service.run_due())
    assert lab.bodies() == [b"soon", b"late"]


def test_next_due_time_is_that_of_the_first_message_and_none_if_nothing_waits() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    assert next_level_due(service) is None
    lab.send(b"a", DELAY="3")
    due_ms = lab.clock.now_ms() + 10_000
    run(service.run_due())
    assert next_level_due(service) == due_ms
    lab.clock.advance(4000)
    lab.send(b"b", DELAY="2")
    run(service.run_due())
    assert next_level_due(service) == lab.clock.now_ms() + 5000
    lab.clock.advance(6000)
    assert next_level_due(service) == lab.clock.now_ms()
    run(service.run_due())
    assert next_level_due(service) is None


def test_cursor_does_not_move_past_a_message_the_store_did_not_take() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    for body, topic in ((b"a", "orders"), (b"b", "bills"), (b"c", "orders")):
        lab.send(body, topic, DELAY="1")
    lab.clock.advance(1000)
    with lab.refusing("bills"):
        assert run(service.run_due()) == 2
        assert service.runtime_info() == {"scheduleMessageOffset_1": "1,3"}
        assert run(service.run_due()) == 0  # it waits a moment before it tries again
    due_ms = next_level_due(service)
    assert due_ms == lab.clock.now_ms() + 100
    lab.clock.advance(100)
    assert run(service.run_due()) == 1
    assert (lab.bodies(), lab.bodies("bills")) == ([b"a", b"c"], [b"b"])
    assert service.runtime_info() == {"scheduleMessageOffset_1": "3,3"}


def test_message_that_can_never_be_stored_is_a_dead_letter_and_blocks_nobody() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.send(b"before", DELAY="1")
    bad = lab.send(b"impossible", "nowhere", DELAY="1")
    lab.send(b"behind", DELAY="1")
    lab.clock.advance(1000)
    with lab.refusing("nowhere", PutMessageStatus.PROPERTIES_SIZE_EXCEEDED):
        assert run(service.run_due()) == 3
    assert lab.bodies() == [b"before", b"behind"]
    (letter,) = lab.messages(DEAD_LETTERS)
    assert letter.body == b"impossible"
    assert letter.properties["DLQ_ORIGIN_MESSAGE_ID"] == bad.message_id
    assert letter.properties["REAL_TOPIC"] == "nowhere"
    assert lab.declared == [DEAD_LETTERS]
    assert service.set_aside_count == 1


def test_body_that_is_too_large_by_now_leaves_a_note_that_names_its_record() -> None:
    lab = WaitingLab()
    big = lab.send(b"x" * 8000, UNIQ_KEY="big", DELAY="1")
    lab.send(b"behind", DELAY="1")
    lab.options = replace(lab.options, max_message_size=4096)
    lab = lab.restart()
    service = schedule(lab)
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies() == [b"behind"]
    (note,) = lab.messages(DEAD_LETTERS)
    assert note.body == b""
    assert note.properties["DLQ_ORIGIN_MESSAGE_ID"] == big.message_id
    original = lab.store.read(big.physical_offset)
    assert original is not None and original.body == b"x" * 8000


def test_record_without_a_real_place_is_a_dead_letter() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.store.put_form(
        StoredForm(topic=SCHEDULE_TOPIC, queue_id=0, body=b"lost", properties=b"DELAY\x011\x02", born_host=HOST)
    )
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies(DEAD_LETTERS) == [b"lost"]


def test_delayed_half_message_is_dropped_since_nobody_would_ask_its_producer() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.send(b"half", HALF_TOPIC, DELAY="1")
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies(HALF_TOPIC) == lab.bodies(DEAD_LETTERS) == []
    assert next_level_due(service) is None


def test_nothing_is_lost_or_repeated_over_a_clean_restart() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    for body in (b"a", b"b"):
        lab.send(body, DELAY="1")
        lab.clock.advance(600)
    run(service.run_due())
    assert run(service.persist())
    lab = lab.restart()
    service = schedule(lab)
    lab.clock.advance(10_000)
    run(service.run_due())
    assert lab.bodies() == [b"a", b"b"]


def test_saved_file_has_rocketmqs_form() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.send(b"a", DELAY="1")
    lab.send(b"b", DELAY="3")
    lab.clock.advance(1000)
    run(service.run_due())
    run(service.persist())
    now_ms = lab.clock.now_ms()
    version = f'{{\n\t\t"counter":1,\n\t\t"stateVersion":0,\n\t\t"timestamp":{now_ms}\n\t}}'
    expected = f'{{\n\t"dataVersion":{version},\n\t"offsetTable":{{\n\t\t1:1,\n\t\t3:0\n\t}}\n}}'
    assert lab.disk.files()[FILE].decode() == expected
    assert service.document()["offsetTable"] == {1: 1, 3: 0}


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        ('{"offsetTable":{1:2}}', [b"c"]),
        ('{"offsetTable":{1:900}}', []),
        ('{"offsetTable":{1:-7}}', [b"a", b"b", b"c"]),
        ('{"offsetTable":{"1":"many","x":1}}', [b"a", b"b", b"c"]),
        ('{"offsetTable":[]}', [b"a", b"b", b"c"]),
        ("", [b"a", b"b", b"c"]),
    ],
)
def test_saved_cursor_is_put_right_when_it_cannot_be(saved: str, expected: list[bytes]) -> None:
    lab = WaitingLab()
    for body in (b"a", b"b", b"c"):
        lab.send(body, DELAY="1")
    lab.disk.make_directories(f"{ROOT}/config")
    handle = lab.disk.open(FILE, create=True)
    handle.write_at(0, saved.encode())
    handle.close()
    service = schedule(lab)
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies() == expected
    lab.send(b"d", DELAY="1")
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies() == [*expected, b"d"]


def test_levels_of_another_configuration_keep_their_cursors() -> None:
    lab = WaitingLab()
    lab.disk.make_directories(f"{ROOT}/config")
    handle = lab.disk.open(FILE, create=True)
    handle.write_at(0, b'{"offsetTable":{30:5}}')
    handle.close()
    assert schedule(lab).document()["offsetTable"] == {30: 5}


def test_expired_head_of_a_level_is_skipped() -> None:
    lab = WaitingLab(replace(OPTIONS, mapped_file_size_commit_log=16 * 1024))
    lab.send(b"gone", DELAY="1")
    service = schedule(lab)
    lab.clock.advance(1000)
    with lab.refusing("orders"):
        run(service.run_due())
    for number in range(40):
        lab.send(b"%d" % number + b"x" * 1000, "filler")
    lab.send(b"kept", DELAY="1")
    lab.store.delete_expired(force=True)
    assert lab.store.min_offset(SCHEDULE_TOPIC, 0) == 1
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies() == [b"kept"]


@pytest.mark.parametrize(("table", "seconds"), [("1s 5s 20s", 10), ("1s 5s 2s", 10)])
def test_changed_table_does_not_move_messages_that_wait_already(table: str, seconds: int) -> None:
    lab = WaitingLab()
    lab.send(b"a", DELAY="3")
    lab = lab.restart()
    service = schedule(lab, parse_delay_levels(table))
    run(service.run_due())
    lab.clock.advance(seconds * 1000 - 1)
    assert run(service.run_due()) == 0
    lab.clock.advance(1)
    assert run(service.run_due()) == 1


# The clock


def test_clock_set_forwards_does_not_shorten_a_delay() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    run(service.run_due())
    lab.send(b"a", DELAY="3")
    lab.clock.advance(100)
    run(service.run_due())
    lab.clock.jump(3_600_000)
    assert run(service.run_due()) == 0
    lab.clock.advance(9_899)
    assert run(service.run_due()) == 0
    assert next_level_due(service) == lab.clock.now_ms() + 101
    lab.clock.advance(101)
    assert run(service.run_due()) == 1


@pytest.mark.parametrize("back_ms", [60_000, 86_400_000])
def test_clock_set_back_does_not_lengthen_a_delay_by_more_than_a_little(back_ms: int) -> None:
    lab = WaitingLab()
    service = schedule(lab)
    lab.clock.advance(500)
    lab.send(b"before", DELAY="3")
    run(service.run_due())
    lab.clock.advance(1000)
    run(service.run_due())
    lab.clock.jump(-back_ms)
    lab.send(b"after", DELAY="3")
    assert run(service.run_due()) == 0
    lab.clock.advance(8000)
    assert run(service.run_due()) == 0
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies() == [b"before"]
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.bodies() == [b"before", b"after"]


def test_after_a_restart_with_the_clock_set_back_a_message_waits_its_delay_once_more_at_most() -> None:
    lab = WaitingLab()
    lab.send(b"a", DELAY="3")
    lab = lab.restart()
    lab.clock.jump(-86_400_000)
    service = schedule(lab)
    lab.clock.advance(9_999)
    assert run(service.run_due()) == 0
    lab.clock.advance(1)
    assert run(service.run_due()) == 1


def test_marks_stay_few_however_long_and_busy_a_level_is() -> None:
    marks = ArrivalMarks(3_600_000)
    clock = ManualClock()
    for number in range(200_000):
        clock.advance(50)
        marks.note(number, now_ms=clock.now_ms(), steady_ms=int(clock.monotonic() * 1000))
    assert len(marks) <= 512


# Durability


def test_cursor_is_not_saved_before_the_deliveries_are_durable() -> None:
    lab = WaitingLab(replace(OPTIONS, flush_disk_type="ASYNC_FLUSH"))
    service = schedule(lab)
    lab.send(b"a", DELAY="1")
    lab.store.flush()
    lab.clock.advance(1000)
    run(service.run_due())
    assert lab.store.flushed_offset < lab.store.max_physical_offset
    assert run(service.persist())
    assert lab.store.flushed_offset == lab.store.max_physical_offset


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(12))
def test_over_crashes_messages_are_delivered_at_least_once_and_never_early(flush: str, seed: int) -> None:
    chance = random.Random(f"schedule {seed} {flush}")
    lab = WaitingLab(replace(OPTIONS, flush_disk_type=flush))
    service = schedule(lab)
    sent: dict[bytes, tuple[int, int, int]] = {}  # body: stored at, level, end of the record
    durable: set[bytes] = set()

    def note_durable() -> None:
        durable.update(body for body, (_, _, end) in sent.items() if end <= lab.store.flushed_offset)

    for step in range(120):
        chosen = chance.choice(("send", "send", "send", "pass", "run", "run", "persist", "tick", "crash"))
        if chosen == "send":
            body, level = b"%03d" % step, chance.randrange(1, 4)
            result = lab.send(body, DELAY=str(level))
            sent[body] = (result.store_timestamp, level, result.physical_offset + result.size)
        elif chosen == "pass":
            lab.clock.advance(chance.randrange(1, 4000))
        elif chosen == "run":
            run(service.run_due())
        elif chosen == "persist":
            run(service.persist())
        elif chosen == "tick":
            lab.store.tick()
        elif step % 5 == 0:
            note_durable()
            lab = lab.crash(f"{seed} {step}")
            lab.clock.advance(chance.randrange(0, 2000))
            service = schedule(lab)
            sent = {body: entry for body, entry in sent.items() if body in durable}
        note_durable()
    lab = lab.crash(f"{seed} end")
    service = schedule(lab)
    lab.clock.advance(10_000)
    run(service.run_due())
    delivered = lab.messages()
    assert durable <= {message.body for message in delivered}
    for message in delivered:
        if message.body in sent:
            stored_at, level, _ = sent[message.body]
            assert message.store_timestamp >= stored_at + LEVELS.delay_ms(level), message.body


def test_crash_at_any_call_to_the_disk_loses_no_delayed_message() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    for body in (b"a", b"b", b"c"):
        lab.send(body, DELAY="1")
    lab.clock.advance(1000)
    images: list[CrashFS] = []
    lab.disk.observer = lambda operation, path: images.append(lab.disk.crash(len(images)))
    run(service.run_due())
    run(service.persist())
    lab.disk.observer = None
    assert len(images) > 5
    for number, image in enumerate(images):
        after = WaitingLab(disk=image, clock=ManualClock(lab.clock.now_ms()))
        again = schedule(after)
        run(again.run_due())
        assert set(after.bodies()) == {b"a", b"b", b"c"}, number


# On the real store_loop


def test_delivers_through_the_gate_of_a_running_broker(tmp_path: Path) -> None:
    clock = ManualClock()

    async def play() -> list[bytes]:
        async with running_store_loop(tmp_path / "store", clock) as store_loop:
            file = ConfigFile(LocalFileSystem(), str(tmp_path / "store" / "config" / "delayOffset.json"))
            service = ScheduleService(store_loop, clock, LEVELS, file, LocalFileSystem(), lambda _: None)
            service.load()
            for number in range(100):
                form = StoredForm.of_message(
                    Message("orders", b"%d" % number, delay_level=1), queue_id=0, born_timestamp=0, born_host=HOST
                )
                assert (await store_loop.put(form)).ok
            store_loop.dispatching.catch_up()
            clock.advance(1000)
            assert await service.run_due() == 100
            assert await service.persist()
            store_loop.dispatching.catch_up()
            bodies: list[bytes] = []
            while found := store_loop.store.get("orders", 0, len(bodies), 100, max_bytes=1 << 20).messages:
                bodies += [message.body for message in found]
            return bodies

    assert asyncio.run(play()) == [b"%d" % number for number in range(100)]
