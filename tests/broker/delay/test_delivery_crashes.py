"""However often a broker dies: a delayed or timed message is in its queue once, and never lost."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from flaremq.broker.delay.levels import ScheduleService
from flaremq.broker.delay.timer import TimerService
from flaremq.clock import ManualClock
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import SCHEDULE_TOPIC, TIMER_TOPIC
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus
from tests.broker.waiting_lab import OPTIONS, WaitingLab, run, schedule, timer
from tests.support.crash_fs import CrashFS

KINDS = ("level", "timer")
LIVES = 12


def service_of(lab: WaitingLab, kind: str) -> ScheduleService | TimerService:
    return schedule(lab) if kind == "level" else timer(lab)


def send(lab: WaitingLab, kind: str, body: bytes, seconds: int, **properties: str) -> None:
    levels = {1: "1", 5: "2", 10: "3"}
    wish = {"DELAY": levels[seconds]} if kind == "level" else {"TIMER_DELAY_SEC": str(seconds)}
    lab.send(body, **wish, **properties)


def die(lab: WaitingLab, how: str, seed: object) -> WaitingLab:
    return lab.kill() if how == "kill" else lab.crash(str(seed))


@pytest.mark.parametrize("how", ["kill", "power cut"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("kind", KINDS)
def test_crash_loop_without_a_single_save_delivers_each_message_once(kind: str, flush: str, how: str) -> None:
    lab = WaitingLab(replace(OPTIONS, flush_disk_type=flush))
    service_of(lab, kind)
    bodies = [b"%03d" % number for number in range(60)]
    for number, body in enumerate(bodies):
        send(lab, kind, body, (1, 5, 10)[number % 3])
        lab.clock.advance(50)
    lab.store.flush()
    for life in range(LIVES):
        lab = die(lab, how, f"{kind} {flush} {life}")
        service = service_of(lab, kind)
        lab.clock.advance(900)
        run(service.run_due())
    lab = die(lab, how, "end")
    service = service_of(lab, kind)
    lab.clock.advance(10_000)
    run(service.run_due())
    assert Counter(lab.bodies()) == Counter(bodies)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_any_mixture_of_sends_saves_stops_and_kills_delivers_each_message_once(kind: str, seed: int) -> None:
    chance = random.Random(f"{kind} {seed}")
    flush = chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH"))
    lab = WaitingLab(replace(OPTIONS, flush_disk_type=flush))
    service = service_of(lab, kind)
    sent: list[bytes] = []
    for step in range(150):
        chosen = chance.choice(("send", "send", "send", "pass", "run", "run", "persist", "tick", "kill", "stop"))
        if chosen == "send":
            sent.append(b"%03d" % step)
            send(lab, kind, sent[-1], chance.choice((1, 5, 10)))
        elif chosen == "pass":
            lab.clock.advance(chance.randrange(1, 4000))
        elif chosen == "run":
            refused = chance.random() < 0.3
            if refused:
                lab.store_loop.refuse["orders"] = PutMessageStatus.SERVICE_NOT_AVAILABLE
            run(service.run_due())
            lab.store_loop.refuse.clear()
        elif chosen == "persist":
            run(service.persist())
        elif chosen == "tick":
            lab.store.tick()
        elif chosen == "kill":
            lab = lab.kill()
            service = service_of(lab, kind)
        else:
            run(service.persist())
            lab = lab.restart()
            service = service_of(lab, kind)
    lab = lab.kill()
    service = service_of(lab, kind)
    lab.clock.advance(10_000)
    run(service.run_due())
    assert Counter(lab.bodies()) == Counter(sent)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_that_are_alike_to_the_last_byte_are_all_delivered(kind: str) -> None:
    lab = WaitingLab()
    service = service_of(lab, kind)
    for _ in range(3):
        send(lab, kind, b"same", 1)
    lab.clock.advance(500)
    for _ in range(2):
        send(lab, kind, b"same", 1, UNIQ_KEY="later")
    lab.clock.advance(500)
    assert run(service.run_due()) == 3
    lab = lab.kill()
    service = service_of(lab, kind)
    lab.clock.advance(500)
    assert run(service.run_due()) == 2
    assert run(service.persist())
    send(lab, kind, b"same", 1)
    lab = lab.kill()
    service = service_of(lab, kind)
    lab.clock.advance(1000)
    assert run(service.run_due()) == 1
    assert lab.bodies() == [b"same"] * 6


@pytest.mark.parametrize("kind", KINDS)
def test_dead_letters_are_not_repeated_either(kind: str) -> None:
    lab = WaitingLab()
    service = service_of(lab, kind)
    send(lab, kind, b"a", 1)
    lab.clock.advance(1000)
    for _ in range(3):
        with lab.refusing("orders", PutMessageStatus.MESSAGE_ILLEGAL):
            run(service.run_due())
        lab = lab.kill()
        service = service_of(lab, kind)
    waiting_topic = SCHEDULE_TOPIC if kind == "level" else TIMER_TOPIC
    assert lab.bodies(f"%DLQ%{waiting_topic}") == [b"a"]
    assert lab.bodies() == []


def test_rolled_message_is_rolled_once_and_delivered_once() -> None:
    lab = WaitingLab()
    service = timer(lab, roll_after_ms=5_000)
    lab.send(b"a", TIMER_DELAY_SEC="8")
    run(service.run_due())
    lab.clock.advance(5_000)
    for _ in range(4):
        run(service.run_due())
        lab = lab.kill()
        service = timer(lab, roll_after_ms=5_000)
    assert len(lab.messages(TIMER_TOPIC)) == 2
    lab.clock.advance(3_000)
    for _ in range(4):
        run(service.run_due())
        lab = lab.kill()
        service = timer(lab, roll_after_ms=5_000)
    assert lab.bodies() == [b"a"]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_progress_costs_one_repetition_at_most(kind: str) -> None:
    lab = WaitingLab()
    service = service_of(lab, kind)
    send(lab, kind, b"a", 1)
    lab.clock.advance(1000)
    assert run(service.run_due()) == 1
    lab = lab.kill()
    path = "/store/flaremq.delay" if kind == "level" else "/store/flaremq.timer/state"
    lab.disk.overwrite(path, b"garbage")
    for _ in range(4):
        service = service_of(lab, kind)
        run(service.run_due())
        lab = lab.kill()
    assert lab.bodies() == [b"a", b"a"]


@pytest.mark.parametrize("kind", KINDS)
def test_log_that_lost_its_unsynced_end_is_searched_from_where_it_ends_now(kind: str) -> None:
    """After a power cut the log may be shorter than it was when progress was saved."""
    lab = WaitingLab(replace(OPTIONS, flush_disk_type="ASYNC_FLUSH"))
    send(lab, kind, b"a", 1)
    lab.store.flush()
    service = service_of(lab, kind)
    for number in range(50):
        lab.store.put_form(lab.form(b"plain %d" % number, "others"))
    assert run(service.persist())
    for number in range(50):
        lab.store.put_form(lab.form(b"plain %d" % number, "others"))
    lab.clock.advance(1000)
    run(service.run_due())
    for life in range(6):
        lab = lab.crash(life)
        service = service_of(lab, kind)
        run(service.run_due())
    assert lab.bodies() == [b"a"]


@pytest.mark.parametrize("kind", KINDS)
def test_stop_ends_a_long_step_after_what_it_has_begun_and_nothing_is_repeated(kind: str) -> None:
    lab = WaitingLab()
    service = service_of(lab, kind)
    bodies = [b"%04d" % number for number in range(1500)]
    for body in bodies:
        send(lab, kind, body, 1)
    lab.clock.advance(1000)
    put = lab.store_loop.put

    async def put_and_stop(form: StoredForm) -> PutResult:
        service.stop()
        return await put(form)

    lab.store_loop.put = put_and_stop  # type: ignore[method-assign]
    assert 0 < run(service.run_due()) < 1500
    assert run(service.run_due()) == 0
    assert run(service.persist())
    lab = lab.restart()
    run(service_of(lab, kind).run_due())
    assert lab.bodies() == bodies


def test_cursors_that_rocketmq_moved_are_taken_as_they_are() -> None:
    """It went back on purpose, or delivered more: its file counts, with or without a version."""
    for document in (
        '{"dataVersion":{"counter":9,"stateVersion":0,"timestamp":5},"offsetTable":{1:1}}',
        '{"offsetTable":{1:1}}',
    ):
        lab = WaitingLab()
        service = schedule(lab)
        for body in (b"a", b"b", b"c"):
            lab.send(body, DELAY="1")
        lab.clock.advance(1000)
        run(service.run_due())
        run(service.persist())
        lab = lab.restart()
        lab.disk.overwrite("/store/config/delayOffset.json", document.encode())
        service = schedule(lab)
        assert run(service.run_due()) == 2
        lab = lab.kill()
        assert run(schedule(lab).run_due()) == 0


def test_crash_between_the_two_files_of_the_progress_repeats_nothing() -> None:
    lab = WaitingLab()
    service = schedule(lab)
    for number in range(2):
        lab.send(b"%d" % number, DELAY="1")
        lab.clock.advance(1000)
        run(service.run_due())
        images: list[CrashFS] = []
        lab.disk.observer = lambda operation, path, disk=lab.disk, images=images: images.append(disk.kill())
        assert run(service.persist())
        lab.disk.observer = None
        assert len(images) > 5
        for image in images:
            after = WaitingLab(disk=image, clock=ManualClock(lab.clock.now_ms()))
            assert run(schedule(after).run_due()) == 0
