"""What waits for its time: in bounded memory, and over crashes."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace

import pytest

from flaremq.broker.delay import timer as timer_module
from flaremq.broker.delay.timer_index import TimerIndex
from flaremq.clock import ManualClock
from tests.broker.waiting_lab import OPTIONS, ROOT, WaitingLab, run, timer
from tests.support.crash_fs import CrashFS


def test_many_waiting_messages_take_no_memory_to_speak_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_module, "_MEMORY_ENTRIES_MAX", 50)
    lab = WaitingLab()
    service = timer(lab)
    for number in range(1000):
        lab.send(b"%d" % number, TIMER_DELAY_SEC=str(1 + number * 7 % 100))
    run(service.run_due())
    assert service.waiting_count == 1000
    assert service._index.memory_count <= 50 + 512
    assert run(service.persist())
    assert service._index.memory_count == 0
    assert service._index.run_count < 16
    for _ in range(100):
        lab.clock.advance(1000)
        run(service.run_due())
        run(service.persist())
    assert sorted(lab.bodies(), key=int) == [b"%d" % number for number in range(1000)]
    assert lab.disk.list_directory(f"{ROOT}/flaremq.timer") == ["state"]


@pytest.mark.parametrize("seed", range(6))
def test_index_gives_what_a_heap_would_through_saves_merges_and_restarts(seed: int) -> None:
    chance = random.Random(f"index {seed}")
    disk = CrashFS()
    disk.make_directories(ROOT)
    index = TimerIndex(disk, ROOT)
    index.load()
    model: list[tuple[int, int]] = []
    number = 0
    for _ in range(400):
        step = chance.choice(("add", "add", "take", "save", "merge", "reload"))
        if step == "add":
            for _ in range(chance.randrange(1, 30)):
                entry = (chance.randrange(1000), number)
                number += 1
                index.add(*entry)
                heapq.heappush(model, entry)
        elif step == "take":
            now_ms, count = chance.randrange(1000), chance.randrange(1, 40)
            expected: list[tuple[int, int]] = []
            while model and model[0][0] <= now_ms and len(expected) < count:
                expected.append(heapq.heappop(model))
            assert index.take_due(now_ms, count) == expected
        elif step == "merge":
            merge = index.begin_merge()
            if merge is not None:
                merged = index.merge(merge)
                # Life goes on while a merge is under way.
                taken = index.take_due(500, 5)
                assert taken == [heapq.heappop(model) for _ in taken]
                if chance.random() < 0.5:
                    index.add(1, number)
                    heapq.heappush(model, (1, number))
                    number += 1
                    index.save({"number": number})
                index.end_merge(merge, merged if chance.random() < 0.8 else None)
        else:
            index.save({"number": number})
            if step == "reload":
                index.close()
                index = TimerIndex(disk, ROOT)
                assert index.load() == {"number": number}
        assert index.count == len(model)
        assert index.next_due_ms() == (model[0][0] if model else None)


# Crashes


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(12))
def test_over_crashes_messages_are_delivered_at_least_once_and_never_early(
    monkeypatch: pytest.MonkeyPatch, flush: str, seed: int
) -> None:
    monkeypatch.setattr(timer_module, "_MEMORY_ENTRIES_MAX", 5)
    chance = random.Random(f"timer {seed} {flush}")
    lab = WaitingLab(replace(OPTIONS, flush_disk_type=flush))
    service = timer(lab, roll_after_ms=6000)
    sent: dict[bytes, tuple[int, int]] = {}  # body: due, end of the record
    durable: set[bytes] = set()

    def note_durable() -> None:
        durable.update(body for body, (_, end) in sent.items() if end <= lab.store.flushed_offset)

    for step in range(160):
        chosen = chance.choice(("send", "send", "send", "pass", "run", "run", "persist", "tick", "crash"))
        if chosen == "send":
            body, due_ms = b"%03d" % step, lab.clock.now_ms() + chance.randrange(1, 15_000)
            result = lab.send(body, TIMER_DELIVER_MS=str(due_ms))
            sent[body] = (due_ms, result.physical_offset + result.size)
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
            service = timer(lab, roll_after_ms=6000)
            sent = {body: entry for body, entry in sent.items() if body in durable}
        note_durable()
    lab = lab.crash(f"{seed} end")
    service = timer(lab, roll_after_ms=6000)
    for _ in range(4):
        lab.clock.advance(5000)
        run(service.run_due())
    delivered = lab.messages()
    assert durable <= {message.body for message in delivered}
    for message in delivered:
        if message.body in sent:
            assert message.store_timestamp >= sent[message.body][0], message.body
    assert service.waiting_count == 0


def test_nothing_that_was_read_is_saved_before_it_is_durable() -> None:
    lab = WaitingLab(replace(OPTIONS, flush_disk_type="ASYNC_FLUSH"))
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="5")
    run(service.run_due())
    assert lab.store.flushed_offset < lab.store.max_physical_offset
    assert run(service.persist())
    assert lab.store.flushed_offset == lab.store.max_physical_offset


def test_saved_index_is_whole_after_a_crash_at_any_call_to_the_disk() -> None:
    lab = WaitingLab()
    service = timer(lab)
    run(service.persist())
    images: list[CrashFS] = []

    def pull_the_plug(operation: str, path: str) -> None:
        if "/flaremq.timer" in path:
            images.append(lab.disk.crash(len(images)))

    lab.disk.observer = pull_the_plug
    for number in range(20):  # enough for merges
        lab.send(b"%d" % number, TIMER_DELAY_SEC="60")
        run(service.run_due())
        run(service.persist())
    lab.disk.observer = None
    assert service._index.run_count < 16
    service.close()
    for image in images:
        index = TimerIndex(image, ROOT)
        notes = index.load()
        assert notes is not None
        assert index.count == notes["cursor"]
        index.close()


def test_file_that_a_crash_left_is_not_taken_for_a_new_one() -> None:
    lab = WaitingLab()
    service = timer(lab)
    handle = lab.disk.open(f"{ROOT}/flaremq.timer/0000000001.run", create=True)
    handle.write_at(0, bytes(100))
    handle.close()
    lab.send(b"a", TIMER_DELAY_SEC="5")
    run(service.run_due())
    run(service.persist())
    service.close()
    lab = lab.restart()
    assert timer(lab).waiting_count == 1
    assert lab.disk.list_directory(f"{ROOT}/flaremq.timer") == ["0000000002.run", "state"]


def test_crash_at_any_call_to_the_disk_loses_no_timed_message() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(6):
        lab.send(b"%d" % number, TIMER_DELAY_SEC=str(1 + number % 3))
    run(service.run_due())
    images: list[CrashFS] = []
    lab.disk.observer = lambda operation, path: images.append(lab.disk.crash(len(images)))
    for _ in range(3):
        run(service.persist())
        lab.clock.advance(1000)
        run(service.run_due())
    run(service.persist())
    lab.disk.observer = None
    assert len(images) > 30
    for number, image in enumerate(images):
        after = WaitingLab(disk=image, clock=ManualClock(lab.clock.now_ms()))
        again = timer(after)
        run(again.run_due())
        assert set(after.bodies()) == {b"%d" % n for n in range(6)}, number
