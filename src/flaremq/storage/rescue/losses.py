"""Which messages a damaged store has lost, as far as it can be known.

A message that is gone leaves two traces: a hole in the queue offsets of the records around it, and its
queue unit, which points into bytes that hold no record any more. Queue files can be damaged too, so a unit
is believed only if it continues the run of kept messages: one offset further, further on in the log, and in
a lost place. A hole is believed only if the lost bytes could have held that many records, because no
checksum covers a record's queue offset.
"""

from __future__ import annotations

from collections.abc import Iterable

from flaremq.message.record.codec import RECORD_SIZE_MIN
from flaremq.storage.at_rest.queues import StoredQueue, StoredUnit
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.log.walk import DamagedRange, LogTail
from flaremq.storage.rescue.relocation import OffsetMap

Span = tuple[int, int]
_MISSING_FILES_MAX = 1000  # log files that may be missing at the end and still be believed in


class LossFinder:
    """Knows the lost places of a log; asked queue by queue."""

    def __init__(self, reader: StoreReader, damaged: list[DamagedRange], tail: LogTail) -> None:
        self._log_min = reader.log_min
        self._deleted = reader.deleted
        self._damaged = damaged
        self._log_end = tail.physical_offset
        self._believable_end = reader.log.run.end + _MISSING_FILES_MAX * reader.log.run.file_size
        lost_bytes = sum(lost.size for lost in damaged) + max(tail.leftover_bytes, 0)
        self._lost_records_max = lost_bytes // RECORD_SIZE_MIN

    def find(self, queue: StoredQueue, kept: OffsetMap) -> list[Span]:
        """Lost queue offsets [start, end) of one queue, ascending."""
        deleted = self._deleted.end_of(queue.topic)
        units = (unit for unit in queue.units() if unit.physical_offset >= deleted)
        if not kept.runs:
            lost = (unit for unit in units if unit.is_real and self._is_lost(unit))
            return _spans(self._follow(lost, None, 1))
        first, last = kept.runs[0][0], kept.runs[-1][0] + kept.runs[-1][2]
        outside = [unit for unit in units if not first <= unit.queue_offset < last]
        head = self._follow([unit for unit in reversed(outside) if unit.queue_offset < first], first, -1)
        rest = self._follow([unit for unit in outside if unit.queue_offset >= last], last, 1)
        holes = [hole for hole in kept.holes() if hole[1] - hole[0] <= self._lost_records_max]
        return _merged([*_spans(head), *holes, *_spans(rest)])

    def _follow(self, units: Iterable[StoredUnit], expected: int | None, step: int) -> list[StoredUnit]:
        """Units that continue a run of offsets, as long as each makes sense after the one before.

        ``step`` is the direction; ``expected`` the offset they must start at, if it is known.
        """
        found: list[StoredUnit] = []
        for unit in units:
            reached = unit.queue_offset + unit.message_count if step < 0 else unit.queue_offset
            if (expected is not None and reached != expected) or not unit.is_real or not self._is_lost(unit):
                break
            if found and (unit.physical_offset - found[-1].physical_offset) * step <= 0:
                break
            found.append(unit)
            expected = unit.queue_offset if step < 0 else unit.queue_offset + unit.message_count
        return found

    def _is_lost(self, unit: StoredUnit) -> bool:
        start, end = unit.physical_offset, unit.physical_offset + unit.size
        if not self._log_min <= start < self._believable_end:
            return False  # expired, or nonsense
        return end > self._log_end or any(start < lost.end and lost.start < end for lost in self._damaged)


def _spans(units: Iterable[StoredUnit]) -> list[Span]:
    return _merged([(unit.queue_offset, unit.queue_offset + unit.message_count) for unit in units])


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
