"""The same hostile messages through every way in: the same answers, the same bytes, and all that was taken is there.

Each way in has a store of its own and gets the same messages in the same order, so log, queues and index of all of
them must be equal byte for byte. One of them is then looked at closely: each record against the plain codec, each
message through get and scan, the whole by the verifier, after a clean close and after a kill.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.clock import ManualClock
from flaremq.message.batch import encode_batch_item
from flaremq.message.record.codec import MAGIC_V1, MAGIC_V2, encode_record
from flaremq.message.topics import encode_topic
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.rescue.rescue import rescue_store
from flaremq.storage.status import PutMessageStatus as Status
from tests.support.driven_store import kernels
from tests.support.hostile_messages import BORN, Hostile, Item, expected_status
from tests.support.store_lab import StoreLab

CHUNK = 10_000
SMALL_CHUNK = 3_000  # the rarest of the hostile kinds is still met about ten times in each
SEED = 20261118
ROOMY = StoreOptions(
    flush_disk_type="ASYNC_FLUSH",
    max_message_size=4096,
    mapped_file_size_commit_log=64 << 20,
    reserve_step_commit_log=4 << 20,
    mapped_file_size_consume_queue=20 * 1000,
    max_hash_slot_num=1000,
    max_index_num=200_000,
    reserve_step_index=1 << 20,
)
KINDS = {
    "roomy": ROOMY,
    "sealed": replace(ROOMY, enabled_append_prop_crc=True),
    "narrow": replace(
        ROOMY, mapped_file_size_commit_log=40_000, reserve_step_commit_log=40_000, max_message_size=1 << 20
    ),
    "six": replace(ROOMY, broker_ip1="::1"),
    "short names": replace(ROOMY, auto_message_version_on_topic_len=False),
}  # fmt: skip


class Entrance:
    """A store and one way into it."""

    batches = False
    compiled = False  # whether it goes through the kernels
    compiled_dispatch = True

    def __init__(self, root: Path, options: StoreOptions) -> None:
        self.lab = StoreLab(root, options, ManualClock(BORN))
        self.open()
        self.host = self.store._writer.store_host
        self.one_by_one = options.mapped_file_size_commit_log < ROOMY.mapped_file_size_commit_log  # files end elsewhere

    def open(self) -> None:
        lab = self.lab
        self.store = MessageStore.open(lab.root, lab.options, clock=lab.clock, threads=False, driven=True)
        self.driver = self.store.driver()
        lab._store = self.store

    def take(self, run: list[Item]) -> list[PutResult]:
        """What was answered for each message of a run."""
        if self.batches and len(run) > 1 and not self.one_by_one and all(map(self.in_batch, run)):
            whole = self.batch(run)
            if whole.ok:
                return _parts(whole)
        return [self.one(item) for item in run]

    def one(self, item: Item) -> PutResult:
        if not self.batches or not self.in_batch(item):
            return self.form(item)
        result = self.batch([item])
        if item.sys_flag & 0xC and not result.ok:
            assert result.status is Status.MESSAGE_ILLEGAL  # a batch cannot be transactional; a message can
            return self.form(item)
        return result

    def form(self, item: Item) -> PutResult:
        """The general way, for what another cannot express."""
        return _unstorable() if item.properties is None else self.store.put_form(item.form(self.host))

    def in_batch(self, item: Item) -> bool:
        return item.message is not None and item.reconsume_times == 0

    def batch(self, run: list[Item]) -> PutResult:
        raise NotImplementedError


class Put(Entrance):
    compiled = True

    def one(self, item: Item) -> PutResult:
        if item.message is None:
            return self.form(item)
        return self.store.put(
            item.message,
            item.queue_id,
            born_timestamp=item.born_timestamp,
            sys_flag=item.sys_flag,
            reconsume_times=item.reconsume_times,
        )


class PutSlowly(Put):
    compiled = False

    def one(self, item: Item) -> PutResult:
        self.store._writer.fast_path = False
        return super().one(item)


class PutForm(Entrance):
    """``put_form`` alone, and dispatch by plain code."""

    compiled_dispatch = False


class PutBatch(Entrance):
    batches = True

    def batch(self, run: list[Item]) -> PutResult:
        messages = [item.message for item in run if item.message is not None]
        first = run[0]
        return self.store.put_batch(
            messages, first.queue_id, born_timestamp=first.born_timestamp, sys_flag=first.sys_flag
        )


class PutBatchCompiled(PutBatch):
    compiled = True


class PutMany(PutBatchCompiled):
    """Columns where a message has nothing but keys and a tag."""

    def in_batch(self, item: Item) -> bool:
        message = item.message
        return (
            message is not None
            and not message.properties
            and message.wait_store_msg_ok
            and not (item.sys_flag or item.flag or item.reconsume_times)
            and item.born_timestamp == BORN  # now
        )

    def batch(self, run: list[Item]) -> PutResult:
        messages = [item.message for item in run if item.message is not None]
        return self.store.put_many(
            run[0].topic,
            [item.body for item in run],
            run[0].queue_id,
            keys=[message.key_text for message in messages],
            tags=[message.tags for message in messages],
        )


class Append(Entrance):
    compiled = True

    def one(self, item: Item) -> PutResult:
        if item.properties is None:
            return _unstorable()
        result = self.driver.append(
            item.topic, item.queue_id, item.body, item.properties, item.flag, item.sys_flag,
            item.born_timestamp, self.host, item.reconsume_times,
        )  # fmt: skip
        if isinstance(result, PutResult):
            return result
        return PutResult(Status.PUT_OK, result[0], result[1], 0, result[2] - result[1], b"")


class AppendBatchBody(Entrance):
    batches = True

    def in_batch(self, item: Item) -> bool:
        fits = item.properties is not None and len(item.properties) <= 32767 and -(2**31) <= item.flag < 2**31
        return fits and item.reconsume_times == 0

    def batch(self, run: list[Item]) -> PutResult:
        return self.driver.append_batch_body(
            run[0].topic,
            run[0].queue_id,
            b"".join(encode_batch_item(item.flag, item.body, item.properties or b"") for item in run),
            born_timestamp=run[0].born_timestamp,
            born_host=self.host,
            sys_flag=run[0].sys_flag,
        )


class AppendBatchBodyCompiled(AppendBatchBody):
    compiled = True


ENTRANCES: list[Callable[[Path, StoreOptions], Entrance]] = [
    Put, PutSlowly, PutForm, PutBatch, PutBatchCompiled, PutMany, Append, AppendBatchBody,
    AppendBatchBodyCompiled,
]  # fmt: skip


def _unstorable() -> PutResult:
    """A message without a stored form cannot come this way: as the doors for messages answer it."""
    return PutResult(Status.MESSAGE_ILLEGAL, -1, -1, 0, 0, b"")


def _parts(whole: PutResult) -> list[PutResult]:
    parts, at = [], whole.physical_offset
    for number, size in enumerate(whole._sizes):
        parts.append(PutResult(whole.status, whole.queue_offset + number, at, whole.store_timestamp, size, b""))
        at += size
    return parts


def check_chunk(root: Path, options: StoreOptions, seed: int, count: int) -> None:
    runs = list(Hostile(seed, options, odd_bytes=seed % 4 == 0).runs(count))
    expected = [expected_status(item, options) for run in runs for item in run]
    doors = [make(root / f"{number}", options) for number, make in enumerate(ENTRANCES)]
    answers = [_feed(door, runs) for door in doors]
    for door, results in zip(doors, answers, strict=True):
        for number, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            assert result.status is wanted, f"{type(door).__name__}: {result!r} for {_item(runs, number)}"
        store = door.store
        with kernels(door.compiled_dispatch):
            door.driver.dispatch()
        assert store.is_writable and store.dispatch_lag_bytes == 0, store.health_state.refusal
        assert store.statistics()["damagedLogRanges"] == 0
    logs = [_log(door.store) for door in doors]
    for door, log in zip(doors, logs, strict=True):
        assert log == logs[0], f"{type(door).__name__} stored other bytes than {type(doors[0]).__name__}"
    _check_records(doors[0], runs, answers[0], logs[0])
    _check_reading(doors[0], runs, expected)
    for number, door in enumerate(doors):  # some are closed, some killed with nothing synced: recovery looks strictly
        (door.store.close if number % 2 else door.store.abandon)()
        door.open()
        report = door.store.recovery
        assert (report.truncated_bytes, report.damaged, report.saved_tail) == (0, [], None), type(door).__name__
        assert _log(door.store) == logs[0]
        door.store.close()
        door.lab.odd_text = seed % 4 == 0
        door.lab._store = None
    queues, index = doors[0].lab.queue_bytes(), doors[0].lab.index_bytes()
    for door in doors[1:]:
        assert door.lab.queue_bytes() == queues, f"{type(door).__name__} has other queues"
        assert door.lab.index_bytes() == index, f"{type(door).__name__} has another index"
    assert doors[0].lab.findings() == []
    if seed % 8 == 0:
        _check_rescue(doors[0].lab, root / "rescued", expected.count(Status.PUT_OK))


def _feed(door: Entrance, runs: list[list[Item]]) -> list[PutResult]:
    results: list[PutResult] = []
    with kernels(door.compiled):
        for run in runs:
            results += door.take(run)
    return results


def _log(store: MessageStore) -> bytes:
    return b"".join(bytes(file.buffer[: file.wrote]) for file in store._commit_log.files.files)


def _item(runs: list[list[Item]], number: int) -> str:
    item = [item for run in runs for item in run][number]
    text = "None" if item.properties is None else f"{len(item.properties)} bytes {item.properties[-60:]!r}"
    return f"{item.topic[:40]!r} {item.queue_id} body {len(item.body)} flags {item.flag} {item.sys_flag} {text}"


def _check_records(door: Entrance, runs: list[list[Item]], results: list[PutResult], log: bytes) -> None:
    """Each record is what the plain codec makes of its message."""
    options, at = door.lab.options, 0
    for item, result in zip((item for run in runs for item in run), results, strict=True):
        if not result.ok:
            continue
        assert item.properties is not None
        topic = encode_topic(item.topic)
        record = encode_record(
            topic=topic,
            body=item.body,
            properties=item.properties,
            queue_id=item.queue_id,
            queue_offset=result.queue_offset,
            physical_offset=result.physical_offset,
            born_timestamp=item.born_timestamp,
            born_host=door.host,
            store_timestamp=result.store_timestamp,
            store_host=door.host,
            flag=item.flag,
            sys_flag=item.sys_flag,
            reconsume_times=item.reconsume_times,
            magic=MAGIC_V1 if len(topic) <= 127 else MAGIC_V2,
            append_crc=options.enabled_append_prop_crc,
        )
        assert result.physical_offset >= at
        at = result.physical_offset + result.size
        assert log[result.physical_offset : at] == record


def _check_reading(door: Entrance, runs: list[list[Item]], expected: list[Status]) -> None:
    """Everything that was taken for a queue can be got and scanned, in order."""
    wanted: dict[tuple[str, int], list[bytes]] = {}
    for item, status in zip((item for run in runs for item in run), expected, strict=True):
        if status is Status.PUT_OK and not item.sys_flag & 0x4:
            wanted.setdefault((item.topic, item.queue_id), []).append(item.body)
    store = door.store
    assert store.queues() == sorted(wanted)
    for (topic, queue_id), bodies in wanted.items():
        got: list[Any] = []
        while len(got) < len(bodies):
            messages = store.get(topic, queue_id, len(got), 1000, max_bytes=64 << 20).messages
            assert messages, f"nothing at {topic} {queue_id} {len(got)} of {len(bodies)}"
            got += [bytes(message.stored_body) for message in messages]
        assert got == bodies
        scanned = [offset for batch in store.scan(topic, queue_id) for offset in batch["queueOffset"].to_pylist()]
        assert scanned == list(range(len(bodies)))


def _check_rescue(lab: StoreLab, target: Path, count: int) -> None:
    geometry = IndexGeometry(lab.options.max_hash_slot_num, lab.options.max_index_num)
    with StoreReader.open(lab.root, index_geometry=geometry) as reader:
        report = rescue_store(reader, str(target))
    assert (report.records, report.damaged, report.lost_messages) == (count, [], 0)


def run_all(root: Path, seed: int, chunks: int, size: int = CHUNK) -> None:
    print(f"seed {seed}")
    shares = ["roomy", "roomy", "sealed", "roomy", "narrow", "six", "roomy", "short names", "sealed", "roomy"]
    for number in range(chunks):
        kind = shares[number % len(shares)]
        folder = root / f"{number}"
        try:
            check_chunk(folder, KINDS[kind], seed + number, size)
        except BaseException as error:
            error.add_note(f"with check_chunk(root, KINDS[{kind!r}], {seed + number}, {size})")
            raise
        shutil.rmtree(folder)


@pytest.mark.slow
def test_every_way_in_gives_the_same_answer_and_the_same_bytes(tmp_path: Path) -> None:
    """The beginning of each chunk that the first test for millions goes through."""
    run_all(tmp_path, SEED, 10, SMALL_CHUNK)


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "chunks"), [(SEED, 10), (None, 500)], ids=["the usual", "new"])
def test_every_way_in_gives_the_same_answer_and_the_same_bytes_for_millions(
    tmp_path: Path, seed: int | None, chunks: int
) -> None:
    run_all(tmp_path, secrets.randbits(32) if seed is None else seed, chunks)
