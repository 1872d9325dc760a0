"""The tail of a killed store's log: units that recovery would write, kept in memory by whoever looks before it ran.

The walk starts where recovery starts, ends where recovery ends the log, and shows the units dispatch would make of what
lies between. It depends on the files alone, so every process that looks finds the same.
"""

from __future__ import annotations

import os
from collections import defaultdict

import numpy as np

from flaremq.core.table import PHYSICAL_OFFSET, QUEUE_OFFSET, SIZE, TAGS_CODE
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.outlook import redispatch_start
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.at_rest.record_table import is_read_singly, queue_groups
from flaremq.storage.at_rest.unit_arrays import Units, joined
from flaremq.storage.dispatch.record_views import expected_units
from flaremq.storage.log.walk import DamagedRange, LogTail, RecordBatch
from flaremq.storage.queue.table import QueueId

_LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)  # tags codes of the schedule topic are never used to filter
_COLUMNS = (QUEUE_OFFSET, PHYSICAL_OFFSET, SIZE, TAGS_CODE)


class StoreTail:
    """Units behind the last checkpoint, by queue, and where the log ends."""

    def __init__(self, start: int, log_end: int, units: dict[QueueId, Units]) -> None:
        self.start = start
        self.log_end = log_end
        self._units = units

    @property
    def topics(self) -> set[str]:
        return {topic for topic, _ in self._units}

    def queues(self, topic: str) -> dict[int, Units]:
        """Units of this topic's queues, by queue id."""
        return {queue_id: units for (name, queue_id), units in self._units.items() if name == topic}

    @classmethod
    def read(cls, reader: StoreReader, topics: frozenset[str] | None) -> StoreTail:
        """Walk the tail for these topics (None: all); the tasks of one process that ask the same share one walk."""
        start = redispatch_start(reader, reader.log.run.end)
        life = reader.layout.root, start, reader.log.run.end, _life_of(reader)
        known = _last.get(life)
        if known is not None and (known[0] is None or (topics is not None and topics <= known[0])):
            return known[1]
        tail = cls._walk(reader, start, topics)
        _last.clear()
        _last[life] = topics, tail
        return tail

    @classmethod
    def _walk(cls, reader: StoreReader, start: int, topics: frozenset[str] | None) -> StoreTail:
        parts: dict[QueueId, list[Units]] = defaultdict(list)
        log_end = start
        for item in reader.walk(start):
            if isinstance(item, LogTail):
                log_end = item.physical_offset
            elif isinstance(item, RecordBatch):
                _collect(reader, item, topics, parts)
            elif isinstance(item, DamagedRange):
                continue
        return cls(start, log_end, {place: _in_order(joined(units)) for place, units in parts.items()})


def units_between(reader: StoreReader, start: int, end: int, topics: frozenset[str] | None) -> dict[QueueId, Units]:
    """The units of the records from ``start`` (where one starts) to about ``end``, by queue."""
    parts: dict[QueueId, list[Units]] = defaultdict(list)
    for item in reader.walk(start):
        if isinstance(item, RecordBatch):
            _collect(reader, item, topics, parts)
            if item.base + item.starts[-1] >= end:
                break
    return {place: _in_order(joined(units)) for place, units in parts.items()}


# The last tail that was walked, by the run of the store it belongs to: only the next opening changes it.
_last: dict[tuple[str, int, int, int], tuple[frozenset[str] | None, StoreTail]] = {}


def _life_of(reader: StoreReader) -> int:
    """When the process was started that died: ``abort`` is written anew by each."""
    try:
        return os.stat(reader.layout.abort).st_mtime_ns
    except OSError:
        return 0


def _collect(
    reader: StoreReader, batch: RecordBatch, topics: frozenset[str] | None, parts: dict[QueueId, list[Units]]
) -> None:
    deleted = reader.deleted
    if batch.base >= deleted.reach and not is_read_singly(batch):
        for place, members in queue_groups(batch):
            if topics is None or place[0] in topics:
                offset, physical, size, code = (batch.columns[column][members] for column in _COLUMNS)
                parts[place].append(Units(offset, physical, size, code, np.ones(len(members), np.int64)))
        return
    for offset, record in batch.records():
        message = MessageExt(record)
        for unit in expected_units(message, _LEVELS):
            if unit.is_light or deleted.hides(unit.topic, offset) or not (topics is None or unit.topic in topics):
                continue
            fields = (unit.queue_offset, offset, message.size, unit.tags_code, unit.message_count)
            parts[unit.topic, unit.queue_id].append(Units(*(np.array([value], np.int64) for value in fields)))


def _in_order(units: Units) -> Units:
    """By queue offset, the first of several: what dispatch would keep."""
    ends = np.maximum.accumulate(units.offset)
    fresh = np.ones(len(ends), bool)
    fresh[1:] = units.offset[1:] > ends[:-1]
    return units if fresh.all() else units.choose(fresh)
