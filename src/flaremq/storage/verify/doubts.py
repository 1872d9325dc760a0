"""The plain checkers for what is in doubt: some queues, stretches of log and index files of a store.

``QueueChecker`` and ``IndexChecker`` expect to see everything. Here what was found right already counts as seen, so
that one wrong unit in a terabyte costs reading a few megabytes, and the findings are those of reading it all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.indexes import IndexEntry, StoredIndex
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.dispatch.record_views import ExpectedUnit, expected_index_hashes, expected_units, tag_index_hash
from flaremq.storage.index.index_file import ENTRY
from flaremq.storage.log.walk import DamagedRange, RecordBatch
from flaremq.storage.queue.table import QueueId
from flaremq.storage.verify.index import IndexChecker
from flaremq.storage.verify.index_entries import entries_end
from flaremq.storage.verify.piece import InDoubt, QueueSpan, RightUnits
from flaremq.storage.verify.queues import QueueChecker

_CHUNK_ENTRIES = 1 << 14


class DoubtfulQueues(QueueChecker):
    """The queues named in ``spans``; what the spans call right is taken as seen."""

    def __init__(
        self,
        reader: StoreReader,
        spans: Mapping[QueueId, Sequence[QueueSpan]],
        *,
        redispatch_from: int,
        known_topics: set[str] | None,
        damaged: list[DamagedRange],
        delay_levels: DelayLevels,
    ) -> None:
        super().__init__(
            reader,
            [queue for queue in reader.queues if (queue.topic, queue.queue_id) in spans],
            redispatch_from=redispatch_from,
            known_topics=known_topics,
            damaged=damaged,
        )
        self._ahead = {place: list(reversed(parts)) for place, parts in spans.items()}
        self._delay_levels = delay_levels

    def look(self) -> None:
        """Read what must be looked at and take the rest as seen, each queue in log order."""
        for start, end in _united(self._ahead.values()):
            for offset, record in _records(self._reader, start, end):
                message = MessageExt(record)
                for unit in expected_units(message, self._delay_levels):
                    if self._is_in_doubt(unit, offset):
                        self.check(
                            unit,
                            physical_offset=offset,
                            size=len(record),
                            store_timestamp=message.store_timestamp,
                        )
        for place in self._ahead:
            self._pass(place, None)

    def _is_in_doubt(self, unit: ExpectedUnit, offset: int) -> bool:
        place = (unit.topic, unit.queue_id)
        if place not in self._ahead:
            return False
        part = self._pass(place, offset)
        return part is not None and part.start <= offset

    def _pass(self, place: QueueId, offset: int | None) -> InDoubt | None:
        """The next stretch to look at that reaches behind ``offset``; right units before it are claimed."""
        ahead = self._ahead[place]
        while ahead:
            part = ahead[-1]
            if isinstance(part, RightUnits):
                self._claim(place, part)
            elif offset is not None and part.end > offset:
                return part
            ahead.pop()
        return None

    def _claim(self, place: QueueId, part: RightUnits) -> None:
        state = self._states[place]
        first = None if state.queue is None else state.queue.unit_at(part.first)
        assert first is not None  # it was found right
        unit = ExpectedUnit(*place, part.first, 0, part.end - part.first)
        self._check_order(state, unit, first.physical_offset)
        state.claim_range(part.first, part.end)


@dataclass(frozen=True, slots=True)
class IndexPart:
    """Entries [first, end), numbered through all files, and the stretch of log they must agree with."""

    first: int
    end: int
    log_start: int
    log_end: int
    offset_before: int | None = None  # where the entries right before and right behind lead
    offset_behind: int | None = None


class DoubtfulIndex(IndexChecker):
    """The entries of one part, and in themselves the files named ``unsound``."""

    def __init__(
        self,
        reader: StoreReader,
        part: IndexPart,
        unsound: set[str],
        *,
        redispatch_from: int,
        damaged: list[DamagedRange],
    ) -> None:
        self._part = part
        self._unsound = unsound
        super().__init__(reader, redispatch_from=redispatch_from, damaged=damaged)

    def look(self, keys_seen: bool) -> None:
        """Read the log of the part; ``keys_seen`` whether there are keys anywhere."""
        self._keys_seen = keys_seen
        for offset, record in _records(self._reader, self._part.log_start, self._part.log_end):
            message = MessageExt(record)
            self.check(
                expected_index_hashes(message),
                tag_hash=tag_index_hash(message),
                physical_offset=offset,
                store_timestamp=message.store_timestamp,
            )

    def _ordered_entries(
        self, reached: int = -1, behind: int | None = None
    ) -> Iterator[tuple[StoredIndex, IndexEntry]]:
        part = self._part
        return super()._ordered_entries(
            reached if part.offset_before is None else part.offset_before, part.offset_behind
        )

    def _all_entries(self) -> Iterator[tuple[StoredIndex, IndexEntry]]:
        begin = 0
        for index in self._indexes:
            count = entries_end(index) - 1
            first, end = max(self._part.first - begin, 0), min(self._part.end - begin, count)
            if index.name in self._unsound or count < 1:
                for at, item in enumerate(self._entries_of(index)):
                    if first <= at < end:
                        yield item
            else:
                yield from _entries_between(index, first + 1, end + 1)
            begin += count


def _entries_between(index: StoredIndex, first: int, end: int) -> Iterator[tuple[StoredIndex, IndexEntry]]:
    assert index.geometry is not None
    for begin in range(first, end, _CHUNK_ENTRIES):
        count = min(_CHUNK_ENTRIES, end - begin)
        data = index.read_raw(index.geometry.entry_position(begin), count * ENTRY.size)
        for at, fields in enumerate(ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])):
            yield index, IndexEntry(begin + at, *fields)


def _records(reader: StoreReader, start: int, end: int) -> Iterator[tuple[int, memoryview]]:
    """The records that start in [start, end); ``start`` is where one does."""
    if start >= end:
        return
    for item in reader.walk(start):
        if isinstance(item, RecordBatch):
            for offset, record in item.records():
                if offset >= end:
                    return
                yield offset, record


def _united(queues: Iterable[Sequence[QueueSpan]]) -> list[tuple[int, int]]:
    """The stretches of log any of these queues asks for, ascending and apart from each other."""
    wanted = sorted((part.start, part.end) for parts in queues for part in parts if isinstance(part, InDoubt))
    united: list[tuple[int, int]] = []
    for start, end in wanted:
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((start, end))
    return united
