"""A master held against its replica, byte by byte: the log where both have it, and every queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.store_place import StorePlace
from flaremq.pipeline.jobs.verify.difference import Difference, State
from flaremq.storage.at_rest.pieces import LogPiece
from flaremq.storage.at_rest.queues import QueueRange, StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.layout import file_name
from flaremq.storage.queue.consume_queue import UNIT
from flaremq.storage.queue.table import QueueId

_WINDOW = 4 << 20
_UNITS = 1 << 16
_QUEUES_A_TASK = 64
_Places = tuple[StorePlace, StorePlace]  # of master and replica


def compare_replica(
    runner: TaskRunner,
    *,
    master: StoreReader,
    replica: StoreReader,
    places: _Places,
    pieces: Sequence[LogPiece],
    log_end: int,
) -> Iterator[Difference]:
    """``places`` are those of master and replica; ``pieces`` cut the master's log, which ends at ``log_end``."""
    replica_end = replica.log_end
    root = replica.layout.root
    if replica_end != log_end:
        detail = f"the replica's log ends at {replica_end}, the master's at {log_end}"
        yield Difference(State.BEHIND, "replica", root, detail, min(replica_end, log_end))
    first = max(master.log_min, replica.log_min)
    if master.log_min != replica.log_min:
        detail = f"the master's log begins at {master.log_min}, the replica's at {replica.log_min}"
        yield Difference(State.EXPIRED, "replica", root, detail, first)
    end = min(replica_end, log_end)
    ranges = [(max(piece.start, first), min(piece.end, end)) for piece in pieces]
    log_tasks = [partial(_compare_log, places, start, stop) for start, stop in ranges if start < stop]
    for found in runner.run(log_tasks, "replica log"):
        yield from found
    names = sorted({(queue.topic, queue.queue_id) for reader in (master, replica) for queue in reader.queues})
    limits = _Limits((master.log_min, log_end), (replica.log_min, replica_end))
    groups = [tuple(names[at : at + _QUEUES_A_TASK]) for at in range(0, len(names), _QUEUES_A_TASK)]
    queue_tasks = [partial(_compare_queues, places, group, limits) for group in groups]
    for found in runner.run(queue_tasks, "replica queues"):
        yield from found


@dataclass(frozen=True, slots=True)
class _Limits:
    """Begin and end of both logs."""

    master: tuple[int, int]
    replica: tuple[int, int]


def _compare_log(places: _Places, start: int, end: int) -> list[Difference]:
    with places[0].open() as master, places[1].open() as replica:
        position = start
        while position < end:
            length = min(_WINDOW, end - position)
            mine, other = master.log.read(position, length), replica.log.read(position, length)
            length = min(len(mine), len(other))
            if mine[:length] != other[:length]:
                at, detail = position + _first_difference(mine, other), "the replica has other bytes"
                return [Difference(State.CHANGED, "replica", f"log [{start}, {end}), {file_name(at)}", detail, at)]
            if not length:
                where, detail = (
                    f"log [{start}, {end}), {file_name(position)}",
                    "one of the two has no file for these bytes",
                )
                return [Difference(State.MISSING, "replica", where, detail, position)]
            position += length
    return []


def _first_difference(mine: bytes, other: bytes) -> int:
    low, high = 0, min(len(mine), len(other))
    while low + 1 < high:
        middle = (low + high) // 2
        if mine[low:middle] != other[low:middle]:
            high = middle
        else:
            low = middle
    return low


def _compare_queues(places: _Places, queues: Sequence[QueueId], limits: _Limits) -> list[Difference]:
    with places[0].open() as master, places[1].open() as replica:
        found = [_compare_queue(queue, master.find_queue(queue), replica.find_queue(queue), limits) for queue in queues]
    return [difference for difference in found if difference is not None]


def _compare_queue(
    place: QueueId, mine: StoredQueue | None, other: StoredQueue | None, limits: _Limits
) -> Difference | None:
    where = f"{place[0]}@{place[1]}"
    nothing = QueueRange(0, 0)
    end = min(limits.master[1], limits.replica[1])
    begin = max(limits.master[0], limits.replica[0])
    a, b = (nothing if queue is None else queue.range(log_min=begin, log_end=end) for queue in (mine, other))
    if (a.min_offset, a.max_offset) != (b.min_offset, b.max_offset) and not a == b == nothing:
        if a.max_offset - a.min_offset == b.max_offset - b.min_offset == 0:
            return None  # both hold nothing of the common log; where they remember to end does not matter
        detail = f"master [{a.min_offset}, {a.max_offset}), replica [{b.min_offset}, {b.max_offset})"
        return Difference(State.CHANGED, "replica", where, f"the queue holds other offsets: {detail}", a.min_offset)
    if mine is None or other is None or mine.is_batch or other.is_batch:
        return None
    for first in range(a.min_offset, a.max_offset, _UNITS):
        count = min(_UNITS, a.max_offset - first)
        left, right = mine.read_raw(first, count), other.read_raw(first, count)
        if left != right:
            offset = first + _first_difference(left, right) // UNIT.size
            return Difference(State.CHANGED, "replica", where, "the units differ", offset)
    return None
