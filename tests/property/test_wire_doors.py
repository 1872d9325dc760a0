"""The same hostile sends by every request a producer may use, through plain code and through the kernels.

Every broker gets the same messages in the same reads, so replies and log bytes must be equal. What was acknowledged
must be dispatched, readable and sound, after a kill too. Sends in a batch must be answered as the rule for all ways in
says (test_doors.py).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import UnavailableError
from flaremq.message.batch import encode_batch_item
from flaremq.message.record.check import check_record
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.remoting.connection import Connection
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus
from flaremq.testing import ephemeral_broker
from tests.support.hostile_messages import BORN, Hostile, Item, expected_status
from tests.support.ports import free_ports
from tests.support.store_lab import StoreLab
from tests.support.wire import Wire, sends_compiled

FRAMES = 50  # in a read
OPTIONS = StoreOptions(max_message_size=4096, mapped_file_size_commit_log=64 << 20, flush_disk_type="ASYNC_FLUSH")
SMALL = {
    "maxMessageSize": OPTIONS.max_message_size,
    "mappedFileSizeCommitLog": OPTIONS.mapped_file_size_commit_log,
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 200_000,
}
_KEY = "UNIQ_KEY\x01C00002021CA84E0E2F2A4F5E49AD0000\x02"
_LETTERS = dict(zip("bcdefghij", ("topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
                                  "bornTimestamp", "flag", "properties", "reconsumeTimes"), strict=True))  # fmt: skip


class Outcome(NamedTuple):
    codes: list[int]
    log: bytes
    taken: int  # bytes that the kernels took


def fields(item: Item, properties: str) -> dict[str, str]:
    return {
        "a": "group", "b": item.topic, "c": "TBW102", "d": "4", "e": str(item.queue_id), "f": str(item.sys_flag),
        "g": str(item.born_timestamp), "h": str(item.flag), "i": properties, "j": str(item.reconsume_times),
    }  # fmt: skip


def plain(code: int, kind: int) -> Callable[[int, Item], bytes]:
    def frame(number: int, item: Item) -> bytes:
        text = _KEY + (item.properties or b"").decode("utf-8", "replace")
        ext = fields(item, text)
        if code == RequestCode.SEND_MESSAGE:
            ext = {"producerGroup": ext.pop("a")} | {_LETTERS[letter]: value for letter, value in ext.items()}
        return encode_frame(RemotingCommand(code, ext=ext, body=item.body, opaque=number, serialize_type=kind))

    return frame


def batch(kind: int) -> Callable[[int, Item], bytes]:
    def frame(number: int, item: Item) -> bytes:
        ext = fields(item, "") | {"m": "true"}
        body = encode_batch_item(item.flag, item.body, item.properties or b"")
        code = (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2)[number % 2]
        return encode_frame(RemotingCommand(code, ext=ext, body=body, opaque=number, serialize_type=kind))

    return frame


async def send_all(path: Path, port: int, frames: list[bytes], *, compiled: bool) -> Outcome:
    async with (
        sends_compiled(compiled),
        ephemeral_broker(clock=ManualClock(BORN), path=str(path), listenPort=port, **SMALL) as lab,
    ):
        broker = lab.broker
        wire = Wire()
        connection = Connection(broker.handlers.table, RemotingOptions())
        connection.connection_made(wire)  # type: ignore[arg-type]
        taken = 0
        if compiled:
            take: Any = broker.handlers.table.fast_path

            def counting(connection: Connection, data: bytes) -> int:
                nonlocal taken
                size: int = take(connection, data)
                taken += size
                return size

            broker.handlers.table.fast_path = counting
        else:
            assert broker.handlers.table.fast_path is None
        decoder = FrameDecoder()
        codes: dict[int, int] = {}
        for first in range(0, len(frames), FRAMES):
            read = frames[first : first + FRAMES]
            connection.data_received(b"".join(read))
            async with asyncio.timeout(60):
                while len(codes) < first + len(read):
                    await asyncio.sleep(0)
                    data, wire.written = wire.written, b""
                    codes |= {reply.opaque: reply.code for reply in decoder.receive(data)} if data else {}
        store = broker.store
        broker.store_loop.dispatching.catch_up()
        assert store.is_writable and store.dispatch_lag_bytes == 0, store.health_state.refusal
        assert store.statistics()["damagedLogRanges"] == 0
        log = bytes(store._commit_log.files.files[0].buffer[: store.max_physical_offset])
    return Outcome([codes[number] for number in range(len(frames))], log, taken)


def run_doors(root: Path, doors: dict[str, tuple[Callable[[int, Item], bytes], bool]], items: list[Item]) -> Outcome:
    """All doors, one after the other on one port, which records carry; the outcome that all of them had."""
    for attempt in range(5):
        port = free_ports()
        try:
            outcomes = {
                name: asyncio.run(
                    send_all(
                        root / f"{attempt} {name}",
                        port,
                        [frame(number, item) for number, item in enumerate(items)],
                        compiled=compiled,
                    )
                )
                for name, (frame, compiled) in doors.items()
            }
            break
        except UnavailableError:  # somebody else took the port meanwhile
            if attempt == 4:
                raise
    first, *_ = outcomes
    for name, outcome in outcomes.items():
        for number, (code, wanted) in enumerate(zip(outcome.codes, outcomes[first].codes, strict=True)):
            assert code == wanted, f"{name} answers {code}, {first} {wanted} to {items[number]!r}"[:2000]
        assert outcome.log == outcomes[first].log, f"{name} stored other bytes than {first}"
    check_store(root / f"{attempt} {first}", outcomes[first])
    return outcomes[name]


def check_store(root: Path, outcome: Outcome) -> None:
    """As many records as acknowledged messages, all sound; nothing is lost or repaired when it is opened again."""
    at = count = 0
    while at < len(outcome.log):
        verdict = check_record(outcome.log, at, physical_offset=at, strict=True)
        assert verdict.ok, f"{verdict} at {at}"
        at += verdict.size
        count += 1
    assert count == outcome.codes.count(ResponseCode.SUCCESS)
    options = StoreOptions(
        max_message_size=OPTIONS.max_message_size,
        mapped_file_size_commit_log=OPTIONS.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=1000,
        max_index_num=200_000,
    )
    lab = StoreLab(root, options, ManualClock(BORN))
    for end in (MessageStore.abandon, MessageStore.close):
        store = lab.open()
        report = store.recovery
        assert (report.truncated_bytes, report.damaged, report.saved_tail) == (0, [], None)
        assert store.max_physical_offset == len(outcome.log)
        end(store)
    lab._store = None
    assert lab.findings() == []


def hostile_items(seed: int, count: int) -> list[Item]:
    """What a header can carry: text, and a queue that is named."""
    chosen: list[Item] = []
    for run in Hostile(seed, OPTIONS, odd_bytes=False).runs(sys_count(count)):
        for item in run:
            if (
                item.properties is not None
                and item.queue_id >= 0
                and item.topic
                and item.topic.isprintable()
                and len(chosen) < count
            ):
                chosen.append(item)
    assert len(chosen) == count
    return chosen


def sys_count(count: int) -> int:
    return count * 2 + 1000


def check_plain(root: Path, seed: int, count: int) -> None:
    print(f"seed {seed}")
    doors = {
        "10": (plain(10, 0), False),
        "10 compact": (plain(10, 1), False),
        "310": (plain(310, 0), False),
        "310 compact": (plain(310, 1), False),
        "310 kernels": (plain(310, 0), True),
        "310 compact kernels": (plain(310, 1), True),
    }
    outcome = run_doors(root, doors, hostile_items(seed, count))
    assert outcome.taken > 0 and outcome.codes.count(0) > count // 2


def check_batches(root: Path, seed: int, count: int) -> None:
    print(f"seed {seed}")
    items = [
        item
        for item in hostile_items(seed, count)
        if len(item.properties or b"") <= 32767 and -(2**31) <= item.flag < 2**31 and item.queue_id < 4
    ]
    doors = {
        "320": (batch(0), False),
        "320 compact": (batch(1), False),
        "320 kernels": (batch(0), True),
        "320 compact kernels": (batch(1), True),
    }
    outcome = run_doors(root, doors, items)
    assert outcome.taken > 0
    for item, code in zip(items, outcome.codes, strict=True):
        if code in (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL) and not item.topic.startswith("%RETRY%"):
            item.reconsume_times = 0  # a batch has none
            stored = expected_status(item, OPTIONS) is PutMessageStatus.PUT_OK and not item.sys_flag & 0xC
            assert (code == ResponseCode.SUCCESS) == stored, repr(item)[:2000]


def test_every_request_for_one_message_gives_the_same_answer_and_the_same_bytes(tmp_path: Path) -> None:
    check_plain(tmp_path, 20261118, 3_000)


@pytest.mark.parametrize(
    "properties",
    ["a\x01__CRC32#1", "a\x01CRC32", "XDELAY\x013", "MYCLUSTER\x01x", "a\x01TIMER_DELAY_MS", "a\x01INNER_NUM",
     "XTRACE_ON\x01x", "NOWAIT\x01false", "TRAN_MSG\x02"],
)  # fmt: skip
def test_a_property_that_only_looks_reserved_does_not_let_later_sends_overtake_its_message(
    tmp_path: Path, properties: str
) -> None:
    def item(number: int, text: str) -> Item:
        return Item("Topic", number % 2, b"%03d" % number, None, text.encode(), 0, 0, BORN, 0)

    # The sends of the first read make the topic, the long way; those of the second are plain.
    items = [item(number, properties if number % 3 == 2 and number >= FRAMES else "") for number in range(FRAMES + 12)]
    outcome = run_doors(tmp_path, {"310": (plain(310, 0), False), "310 kernels": (plain(310, 0), True)}, items)
    assert outcome.codes == [ResponseCode.SUCCESS] * len(items)
    places = [outcome.log.index(b"\0\0\0\3" + item.body) for item in items[FRAMES:]]
    assert places == sorted(places)


def test_every_request_for_a_batch_gives_the_answer_of_the_rule(tmp_path: Path) -> None:
    check_batches(tmp_path, 20261118, 3_000)


@pytest.mark.soak
@pytest.mark.parametrize("check", [check_plain, check_batches])
def test_every_request_gives_the_same_answer_for_many(tmp_path: Path, check: Callable[[Path, int, int], None]) -> None:
    seed = secrets.randbits(32)
    for number in range(20):
        check(tmp_path / f"{number}", seed + number, 10_000)
