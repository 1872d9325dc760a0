"""One task of a sink: Arrow batches in, parcels of write streams out, each row once.

Rows of a task go into *lanes*: one for each topic, queue and whether they are delayed. A lane is a write stream
(``message/write_stream.py``) named by who writes: query, batch and partition. So a task that runs again, in this run of
the query or after a restart, writes the same streams, and rows that are stored already are passed over.

As long as rows come in the order they were stored in, the digest at the end of each Arrow batch says so and they are
just counted. If the digests differ, something upstream gave another order: then the hashes of the stored rows are read
back, and rows are taken off that collection by content, whatever their order.

Rows that are not in the collection wait on disk until it is used up. If it never is, rows that an earlier attempt
stored do not come again: this partition does not hold what it held then, so what came instead may be stored already,
by another one. Then the task fails and none of it is sent, unless duplicates are allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from flaremq.client.streams.sending import Parcel
from flaremq.core import stream_items as kernels
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.batch import ITEM_OVERHEAD
from flaremq.message.write_stream import CHAIN_START, NUMBER_MAX, DoubtError, Stored, stem_of, unlink
from flaremq.pipeline.sink.byte_column import Integers
from flaremq.pipeline.sink.rows import RowRules, SinkRows, check_batch
from flaremq.pipeline.sink.spool import Spool
from flaremq.pipeline.sink.text import RowError

_ITEMS_MAX = 16_384  # of one request; brokers take up to 65,536
_WORD = 2**64 - 1
_DIGESTS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Who writes: the same for every attempt at the same rows."""

    write_id: str
    batch_id: int
    partition: int


@dataclass(frozen=True, slots=True)
class LaneKey:
    """Where rows of a task go that are written in order; queue -1 is for us to choose."""

    topic: str
    queue_id: int
    is_delayed: bool

    def stream(self, task: TaskIdentity) -> str:
        """The name brokers fence: one writer at a time for all batches."""
        return stem_of("stream", task.write_id, self.topic, task.partition, self.queue_id, int(self.is_delayed))

    def stem(self, task: TaskIdentity) -> str:
        """The beginning of its messages' unique keys."""
        return stem_of(
            "batch", task.write_id, task.batch_id, self.topic, task.partition, self.queue_id, int(self.is_delayed)
        )

    def queue_index(self, task: TaskIdentity, count: int) -> int:
        """Which of ``count`` queues: neighbours get neighbours, and each batch begins at another."""
        start = int(stem_of("queue", task.write_id, task.batch_id, self.topic)[:8], 16)
        return (start + task.partition) % count


class SinkTarget(Protocol):
    """Where parcels go."""

    def open(self, lane: LaneKey) -> Stored:
        """Become the writer of a lane; what is stored of it."""

    def chains(self, lane: LaneKey, numbers: Iterable[int]) -> dict[int, int]:
        """The digests of stored messages."""

    def put(self, lane: LaneKey, parcel: Parcel) -> None: ...

    def finish(self) -> None:
        """Return when everything is where it must be."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Rows seen, of these stored before; and stored rows that did not come again, of which there should be none."""

    rows: int
    stored_before: int
    missing: int
    lanes: tuple[LaneKey, ...] = ()  # where rows went


class _Lane:
    """One lane of a running task."""

    __slots__ = ("chain", "key", "leftover", "number", "stored", "suffix", "waits")

    def __init__(self, key: LaneKey, task: TaskIdentity, stored: Stored) -> None:
        self.key = key
        self.stored = stored
        self.number = 0  # of the next row
        self.chain = CHAIN_START
        self.leftover: Counter[int] | None = None  # hashes of stored rows that are still to come, in any order
        self.waits = False  # until there are none left
        text = f"UNIQ_KEY\x01{key.stem(task)}{'0' * 16}\x02FMQ_CHAIN\x01{'0' * 16}\x02".encode()
        self.suffix = np.frombuffer(text, np.uint8)


class SinkTask:
    """Writes the rows of one partition. With ``sends_in_doubt`` rows never wait for stored ones to come again.

    ``name_row`` says of which message a row is that cannot be written; the default knows its place in the partition.
    """

    def __init__(
        self,
        target: SinkTarget,
        task: TaskIdentity,
        rules: RowRules,
        *,
        request_bytes: int,
        sends_in_doubt: bool = False,
        name_row: Callable[[pa.RecordBatch, int], str] | None = None,
    ) -> None:
        self._target = target
        self._name_row = name_row
        self._task = task
        self._rules = rules
        self._sends_in_doubt = sends_in_doubt
        self._waiting = Spool[_Lane]()
        self._scratch = self._usual_scratch = np.empty(request_bytes, np.uint8)
        self._lanes: dict[LaneKey, _Lane] = {}
        self._seen = 0
        self._passed = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        """Write everything and wait until it is stored."""
        with self._waiting:
            for batch in batches:
                if batch.num_rows:
                    self._write_batch(batch)
            missing = sum(_missing(lane) for lane in self._lanes.values())
            if missing and not self._sends_in_doubt:
                raise self._changed(missing)
        self._target.finish()
        return TaskReport(self._seen, self._passed, missing, tuple(self._lanes))

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        rows = self._checked(batch)
        # All lanes are opened before the first row goes: a queue that does not exist stops the batch as a whole.
        work = [(self._lane(key), places) for key, places in _lanes_of(rows)]
        waiting: list[tuple[_Lane, Integers]] = []
        for lane, places in work:
            before = len(places)
            places, hashes = self._without_stored(lane, places, _hashes(rows, places))
            self._passed += before - len(places)
            if lane.leftover and not self._sends_in_doubt:
                lane.waits = True
            if lane.waits:
                waiting.append((lane, places))
            else:
                self._send_rows(lane, rows, places, hashes)
        self._waiting.add(batch, waiting)
        if not any(lane.leftover for lane in self._lanes.values()):
            self._send_waiting()
        self._seen += batch.num_rows

    def _checked(self, batch: pa.RecordBatch) -> SinkRows:
        try:
            return check_batch(batch, self._rules)
        except RowError as error:
            place = f"partition {self._task.partition}, batch of rows from {self._seen} on"
            if self._name_row is not None:
                place = self._name_row(batch, error.row)
            raise InvalidArgumentError(f"{error} ({place}; none of them was written)") from None

    def _send_waiting(self) -> None:
        """Everything that was stored has come again: the rest is new."""
        for lane in self._lanes.values():
            lane.waits = False
        for batch, work in self._waiting.drain():
            rows = self._checked(batch)
            for lane, places in work:
                self._send_rows(lane, rows, places, _hashes(rows, places))

    def _changed(self, missing: int) -> DoubtError:
        return DoubtError(
            f"{missing} rows that an earlier attempt stored did not come again in partition {self._task.partition}: "
            "the query does not compute the same rows in the same partitions each time, so rows that came instead "
            "may be stored already. None of them was sent. Bring back the partitions of the first attempt, or set "
            "onDoubt=send to send them, perhaps a second time"
        )

    def _lane(self, key: LaneKey) -> _Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key, self._task, self._target.open(key))
        return lane

    def _send_rows(self, lane: _Lane, rows: SinkRows, places: Integers, hashes: Integers) -> None:
        bodies, properties = rows.bodies, rows.properties
        columns = (bodies.data, bodies.offsets, properties.data, properties.offsets)
        if lane.number + len(places) > NUMBER_MAX:
            raise InvalidArgumentError(f"more than {NUMBER_MAX} rows of one partition go to topic {lane.key.topic!r}")
        start = 0
        count_max = 1 if lane.key.is_delayed else _ITEMS_MAX
        while start < len(places):
            chain = _signed(lane.chain)
            count, size, after = kernels.encode_items(
                *columns, places, hashes, start, count_max, lane.suffix, lane.number, chain, self._scratch
            )
            assert count >= 0, "rows were checked before"
            if not count:  # one message larger than a request usually is
                row = int(places[start])
                needed = int(bodies.lengths[row] + properties.lengths[row]) + kernels.SUFFIX_SIZE + ITEM_OVERHEAD
                self._scratch = np.empty(needed, np.uint8)
                continue
            self._target.put(lane.key, Parcel(lane.number, count, self._scratch[:size].tobytes()))
            self._scratch = self._usual_scratch  # a request that was made larger was so for one message
            lane.number += count
            lane.chain = after & _WORD
            start += count

    # What is stored already

    def _without_stored(self, lane: _Lane, places: Integers, hashes: Integers) -> tuple[Integers, Integers]:
        if lane.leftover is not None:
            return _subtract(lane.leftover, places, hashes)
        count = min(len(places), lane.stored.count - lane.number)
        if count <= 0:
            return places, hashes
        chain = kernels.chain_rows(hashes[:count], _signed(lane.chain)) & _WORD
        last = lane.number + count - 1
        if chain == self._chain_at(lane, last):
            lane.number += count
            lane.chain = chain
            return places[count:], hashes[count:]
        lane.leftover = self._stored_hashes(lane)
        lane.number, lane.chain = lane.stored.count, lane.stored.chain
        return _subtract(lane.leftover, places, hashes)

    def _chain_at(self, lane: _Lane, number: int) -> int:
        if number == lane.stored.count - 1:
            return lane.stored.chain
        return _complete(lane, self._target.chains(lane.key, [number]), [number])[0]

    def _stored_hashes(self, lane: _Lane) -> Counter[int]:
        """The content hashes of the stored rows from the lane's place on."""
        hashes: Counter[int] = Counter()
        chain = lane.chain
        for first in range(lane.number, lane.stored.count, _DIGESTS_AT_ONCE):
            numbers = range(first, min(first + _DIGESTS_AT_ONCE, lane.stored.count))
            for following in _complete(lane, self._target.chains(lane.key, numbers), numbers):
                hashes[unlink(following, chain)] += 1
                chain = following
        return hashes


def _hashes(rows: SinkRows, places: Integers) -> Integers:
    """What the content of some rows is known by."""
    bodies, properties = rows.bodies, rows.properties
    hashes = np.empty(len(places), np.int64)
    hashed = kernels.hash_rows(bodies.data, bodies.offsets, properties.data, properties.offsets, places, hashes)
    assert hashed == len(places), "Arrow's offsets lie within its buffers"
    return hashes


def _complete(lane: _Lane, chains: dict[int, int], numbers: Iterable[int]) -> list[int]:
    wanted = list(numbers)
    if absent := [number for number in wanted if number not in chains]:
        raise UnavailableError(
            f"row {absent[0]} of an earlier attempt is stored in topic {lane.key.topic!r} but cannot be found: its "
            "index is gone or behind, so it is not known which rows are stored"
        )
    return [chains[number] for number in wanted]


def _subtract(leftover: Counter[int], places: Integers, hashes: Integers) -> tuple[Integers, Integers]:
    """Rows that are not in the collection; those that are leave it."""
    if not leftover:
        return places, hashes
    kept = np.ones(len(places), np.bool_)
    for at, value in enumerate(hashes.tolist()):
        word = value & _WORD
        held = leftover.get(word, 0)
        if held:
            kept[at] = False
            if held == 1:
                del leftover[word]
            else:
                leftover[word] = held - 1
    return places[kept], hashes[kept]


def _missing(lane: _Lane) -> int:
    """Stored rows of an earlier attempt that did not come again."""
    if lane.leftover is not None:
        return lane.leftover.total()
    return max(0, lane.stored.count - lane.number)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _lanes_of(rows: SinkRows) -> Iterator[tuple[LaneKey, Integers]]:
    """The lanes of a batch and the rows of each, in order."""
    keys: np.ndarray[Any, np.dtype[np.int64]] = np.stack(
        (rows.topic_numbers, rows.queue_ids, (rows.delay_levels > 0).astype(np.int64))
    )
    if (keys == keys[:, :1]).all():
        number, queue_id, delayed = keys[:, 0].tolist()
        yield LaneKey(rows.topics[number], queue_id, bool(delayed)), np.arange(len(rows))
        return
    order = np.lexsort(keys[::-1])
    bounds = np.flatnonzero((np.diff(keys[:, order], axis=1) != 0).any(axis=0)) + 1
    for places in np.split(order, bounds):
        number, queue_id, delayed = keys[:, places[0]].tolist()
        yield LaneKey(rows.topics[number], queue_id, bool(delayed)), np.ascontiguousarray(places)
