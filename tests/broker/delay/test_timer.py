"""Messages with a time of their own: at least once, never early, rolled on when they wait long."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from flaremq.broker.delay.message_rules import TimerRules, due_ms_of
from flaremq.broker.delay.timer import TimerService
from flaremq.clock import ManualClock
from flaremq.message.topics import OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus
from tests.broker.delay.due_times import next_timer_due
from tests.broker.waiting_lab import ROOT, InlineStoreLoop, WaitingLab, run, timer
from tests.support.golden import open_golden

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DEAD_LETTERS = f"%DLQ%{TIMER_TOPIC}"
RULES = TimerRules()


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_SEC": "3"}, {"TIMER_DELAY_MS": "3000"}])
def test_message_is_delivered_at_its_time_to_the_millisecond_and_not_before(properties: dict[str, str]) -> None:
    lab = WaitingLab()
    lab.clock.advance(137)
    service = timer(lab)
    lab.send(b"a", queue_id=1, **properties)
    assert run(service.run_due()) == 0
    assert next_timer_due(service) == lab.clock.now_ms() + 3000
    lab.clock.advance(2999)
    assert run(service.run_due()) == 0
    lab.clock.advance(1)
    assert run(service.run_due()) == 1
    assert run(service.run_due()) == 0
    (message,) = lab.messages(queue_id=1)
    assert message.body == b"a"
    assert message.properties["TIMER_DEQUEUE_MS"] == str(lab.clock.now_ms())
    assert next_timer_due(service) is None


def test_messages_come_in_the_order_of_their_times() -> None:
    lab = WaitingLab()
    service = timer(lab)
    now_ms = lab.clock.now_ms()
    chance = random.Random(3)
    times = [now_ms + chance.randrange(1, 600_000) for _ in range(400)]
    for number, at in enumerate(times):
        lab.send(b"%d" % number, TIMER_DELIVER_MS=str(at))
    for _ in range(600):
        lab.clock.advance(1000)
        run(service.run_due())
    delivered = lab.messages()
    assert [int(message.body) for message in delivered] == sorted(range(400), key=lambda number: times[number])
    for message in delivered:
        assert times[int(message.body)] <= message.store_timestamp <= times[int(message.body)] + 1000


def test_record_that_rocketmq_wrote_is_due_at_the_end_of_its_slot_at_the_latest() -> None:
    lab = WaitingLab()
    lab.send(b"a", TIMER_DELAY_MS="2500")
    (record,) = lab.messages(TIMER_TOPIC)
    out = int(record.properties["TIMER_OUT_MS"])
    assert due_ms_of(record, out, 1000) == record.store_timestamp + 2500
    assert due_ms_of(record, out - 5000, 1000) == out - 4000  # the named time is not in the slot: a rolled copy


def test_forged_target_is_a_dead_letter() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for topic in (OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC):
        lab.store.put_form(
            replace(
                lab.form(b"forged", TIMER_OUT_MS="1699999999000", REAL_TOPIC=topic, REAL_QID="0"), topic=TIMER_TOPIC
            )
        )
    run(service.run_due())
    assert lab.bodies(OP_HALF_TOPIC) == lab.bodies(SCHEDULE_TOPIC) == []
    assert lab.bodies(DEAD_LETTERS) == [b"forged"] * 3


def test_record_without_a_time_is_left_alone_and_blocks_nobody() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.store.put_form(lab.form(b"odd", TIMER_TOPIC))
    lab.store.put_form(lab.form(b"odd", TIMER_TOPIC, TIMER_OUT_MS="x", REAL_TOPIC="orders"))
    lab.send(b"a", TIMER_DELAY_SEC="1")
    lab.clock.advance(1000)
    assert run(service.run_due()) == 1
    assert service.malformed_count == 2


def test_message_the_store_does_not_take_now_is_tried_again() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for body, topic in ((b"a", "orders"), (b"b", "bills"), (b"c", "orders")):
        lab.send(body, topic, TIMER_DELAY_SEC="1")
    lab.clock.advance(1000)
    with lab.refusing("bills"):
        assert run(service.run_due()) == 2
        assert run(service.run_due()) == 0
    assert next_timer_due(service) == lab.clock.now_ms() + 100
    lab.clock.advance(100)
    assert run(service.run_due()) == 1
    assert (lab.bodies(), lab.bodies("bills")) == ([b"a", b"c"], [b"b"])


def test_message_that_can_never_be_stored_is_a_dead_letter() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", "nowhere", TIMER_DELAY_SEC="1")
    lab.clock.advance(1000)
    with lab.refusing("nowhere", PutMessageStatus.MESSAGE_ILLEGAL):
        run(service.run_due())
    assert lab.bodies(DEAD_LETTERS) == [b"a"]
    assert lab.declared == [DEAD_LETTERS]


def test_cancelled_step_loses_nothing() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="1")
    lab.clock.advance(1000)

    async def play() -> None:
        lab.store_loop.pause = asyncio.Event()
        step = asyncio.ensure_future(service.run_due())
        await asyncio.sleep(0)
        while not lab.store.max_offset("orders", 0):
            await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        lab.store_loop.pause = None
        assert service.waiting_count == 1
        assert await service.persist()

    asyncio.run(play())
    lab = lab.restart()
    service = timer(lab)
    assert run(service.run_due()) == 1  # at least once: nobody can say that the first put was done
    assert lab.bodies() == [b"a", b"a"]


def test_runtime_info_tells_what_waits_and_how_far_behind_it_is() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="10")
    lab.send(b"b", TIMER_DELAY_SEC="20")
    assert service.runtime_info()["timerOffsetBehind"] == "2"
    run(service.run_due())
    info = service.runtime_info()
    assert (info["timerOffsetBehind"], info["timerCongestNum"], info["timerReadBehind"]) == ("0", "2", "0")
    lab.clock.advance(13_000)
    info = service.runtime_info()
    assert (info["timerReadBehind"], info["timerEnqueueTps"], info["timerDequeueTps"]) == ("3", "0.0", "0.0")
    run(service.run_due())
    lab.clock.advance(1000)
    assert service.runtime_info()["timerDequeueTps"] == "0.1"
    assert service.waiting_count == 1


# Restarts


def test_nothing_is_lost_or_repeated_over_clean_restarts() -> None:
    lab = WaitingLab()
    expected = []
    for number in range(20):
        lab.send(b"%02d" % number, TIMER_DELAY_SEC=str(number + 1))
        expected.append(b"%02d" % number)
    for _ in range(20):
        service = timer(lab)
        lab.clock.advance(1000)
        run(service.run_due())
        assert run(service.persist())
        service.close()
        lab = lab.restart()
    assert lab.bodies() == expected


def test_messages_are_found_again_without_the_index() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="5")
    run(service.run_due())
    lab = lab.restart()
    service = timer(lab)
    lab.clock.advance(5000)
    run(service.run_due())
    assert lab.bodies() == [b"a"]


@pytest.mark.parametrize("damage", ["state", "run", "missing", "version"])
def test_damaged_index_is_built_again_from_the_topic(damage: str) -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="5")
    run(service.run_due())
    run(service.persist())
    service.close()
    folder = f"{ROOT}/flaremq.timer"
    (run_name,) = [name for name in lab.disk.list_directory(folder) if name.endswith(".run")]
    if damage == "state":
        lab.disk.overwrite(f"{folder}/state", b"00000000\n{}")
    elif damage == "run":
        lab.disk.overwrite(f"{folder}/{run_name}", bytes(16))
    elif damage == "missing":
        lab.disk.remove(f"{folder}/{run_name}")
    else:
        text = b'{"version":9}'
        lab.disk.overwrite(f"{folder}/state", b"%08x\n" % crc32(text) + text)
    lab = lab.restart()
    service = timer(lab)
    run(service.run_due())
    assert service.waiting_count == 1
    assert run(service.persist())
    service.close()
    lab = lab.restart()
    service = timer(lab)
    assert service.waiting_count == 1
    lab.clock.advance(5000)
    run(service.run_due())
    assert lab.bodies() == [b"a"]


def test_index_that_knows_more_than_the_log_is_not_believed() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(3):
        lab.send(b"%d" % number, TIMER_DELAY_SEC="5")
    lab.clock.advance(5000)
    assert run(service.run_due()) == 3
    run(service.persist())
    service.close()
    other = WaitingLab()
    other.disk.make_directories(f"{ROOT}/flaremq.timer")
    for path, content in lab.disk.files().items():
        if "/flaremq.timer/" in path:
            handle = other.disk.open(path, create=True)
            handle.write_at(0, content)
            handle.close()
    other.send(b"new", TIMER_DELAY_SEC="5")
    service = timer(other)
    other.clock.advance(5000)
    run(service.run_due())
    assert other.bodies() == [b"new"]


def test_what_rocketmq_delivered_is_not_delivered_again(tmp_path: Path) -> None:
    golden = open_golden("rmq55-clean", tmp_path)
    clock = ManualClock(1_794_822_012_000)  # a second after RocketMQ stopped
    store = MessageStore.open(
        golden.root,
        StoreOptions(
            mapped_file_size_commit_log=golden.log_file_size,
            mapped_file_size_consume_queue=int(golden.options["mappedFileSizeConsumeQueue"]),
            max_hash_slot_num=200,
            max_index_num=800,
        ),
        clock=clock,
        threads=False,
    )
    try:
        store_loop = InlineStoreLoop(store)
        service = TimerService(store_loop, clock, RULES, LocalFileSystem(), lambda _: None)
        service.load()
        assert run(service.run_due()) == 0
        assert service.waiting_count == 1  # "timer in one hour"
        assert next_timer_due(service) == 1_794_825_501_870
        before = store.max_offset("GoldDelay", 0)
        clock.jump(1_794_825_501_870 - clock.now_ms())
        assert run(service.run_due()) == 1
        (message,) = store.get("GoldDelay", 0, before).messages
        assert message.body == b"timer in one hour"
        assert run(service.persist())
        service.close()
        assert store.check() == []  # our folder in the store disturbs nobody
    finally:
        store.close()


@pytest.mark.parametrize("hours", [(24, 48), (48, 24), (24, 48, 12)], ids=str)
def test_roll_time_that_changes_between_runs_brings_no_message_early(hours: tuple[int, ...]) -> None:
    lab = WaitingLab()
    due_ms = lab.clock.now_ms() + 60 * HOUR_MS
    for number, hour in enumerate(hours):
        service = timer(lab, roll_after_ms=hour * HOUR_MS)
        if not number:
            for delay in (30, 60):
                lab.send(b"%d" % delay, queue_id=1, TIMER_DELIVER_MS=str(due_ms - (60 - delay) * HOUR_MS))
        run(service.run_due())
        assert run(service.persist())
    for hour in range(1, 61):
        lab.clock.advance(HOUR_MS)
        run(service.run_due())
        assert lab.bodies(queue_id=1) == [b"30"] * (hour >= 30) + [b"60"] * (hour >= 60), hour


def test_shorter_retention_of_a_running_broker_rolls_new_messages_earlier() -> None:
    lab = WaitingLab()
    service = timer(lab)
    object.__setattr__(lab.access.store.options, "file_reserved_time", 10)  # as a live change does
    lab.send(b"a", queue_id=1, TIMER_DELIVER_MS=str(lab.clock.now_ms() + 60 * HOUR_MS))
    run(service.run_due())
    assert next_timer_due(service) == lab.clock.now_ms() + 5 * HOUR_MS


def test_message_that_waits_long_is_rolled_before_its_record_expires() -> None:
    lab = WaitingLab()
    service = timer(lab, roll_after_ms=DAY_MS)
    due_ms = lab.clock.now_ms() + 60 * 3_600_000
    lab.send(b"a", queue_id=1, TIMER_DELIVER_MS=str(due_ms))
    run(service.run_due())
    assert next_timer_due(service) == lab.clock.now_ms() + DAY_MS
    lab.clock.advance(DAY_MS)
    run(service.run_due())
    first, second = lab.messages(TIMER_TOPIC)
    assert second.properties["TIMER_ROLL_TIMES"] == "1"
    assert second.properties["TIMER_OUT_MS"] == first.properties["TIMER_OUT_MS"]
    assert service.waiting_count == 1
    lab.clock.advance(DAY_MS)
    run(service.run_due())
    assert lab.messages(TIMER_TOPIC)[-1].properties["TIMER_ROLL_TIMES"] == "2"
    lab.clock.advance(12 * 3_600_000 - 1)
    run(service.run_due())
    assert lab.bodies(queue_id=1) == []
    lab.clock.advance(1)
    run(service.run_due())
    assert lab.bodies(queue_id=1) == [b"a"]
    assert service.waiting_count == 0
