"""Messages by key for a scan: through the index files where they reach, through the queues where they do not.

An index file vouches for the log from its first record to its last. What lies between two files, before the first and
behind the last is searched in the queues: mostly nothing, or the records of the last moments. A file whose geometry is
unknown vouches for nothing, and of an inner batch the index knows the keys of the record only, so batch queues are
always searched. Texts are compared on the record, so another key with the same hash is not found.
"""

from __future__ import annotations

import logging
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from flaremq.message.java_hash import index_hash
from flaremq.storage.scan_queue import Units
from flaremq.storage.scan_units import PlacedUnits, UnitSpan
from flaremq.storage.store_indexes import StoredIndex
from flaremq.storage.store_view import StoreView

_log = logging.getLogger(__name__)
_PLACE = struct.Struct(">12xi4xq")  # QUEUEID, QUEUEOFFSET
_END = 2**63 - 1

Range = tuple[int, int]  # physical offsets [low, high)


def indexed_units(view: StoreView, keys: Sequence[str], spans: Sequence[UnitSpan]) -> PlacedUnits:
    """Units within the spans whose index entries have the hash of one of the keys, in the order of the log."""
    gaps = uncovered(view)
    found: dict[int, tuple[int, tuple[int, ...]]] = {}
    by_topic: dict[str, list[int]] = defaultdict(list)
    for number, span in enumerate(spans):
        if not span.queue.is_batch:
            by_topic[span.queue.topic].append(number)
    for topic, numbers in by_topic.items():
        for physical in _entries(view, {index_hash(topic, key) for key in keys}):
            if not any(low <= physical < high for low, high in gaps):
                placed = _placed(view, physical, spans, numbers)
                if placed is not None:
                    found.setdefault(physical, placed)
    order = sorted(found)
    fields = np.array([found[physical][1] for physical in order], np.int64).reshape(-1, 5)
    units = Units(*(np.ascontiguousarray(fields[:, column]) for column in range(5)))
    return PlacedUnits(units, np.array([found[physical][0] for physical in order], np.int64))


def unindexed_spans(view: StoreView, spans: Sequence[UnitSpan]) -> list[UnitSpan]:
    """The parts of the spans that no index file vouches for."""
    if not _used(view):
        _log.warning(
            "%s has no key index that can be read (index files missing, or sizes other than RocketMQ's: set "
            "maxHashSlotNum and maxIndexNum); keys are searched by a scan",
            view.root,
        )
        return list(spans)
    parts = [span for span in spans if span.queue.is_batch]
    for low, high in uncovered(view):
        for span in spans:
            last = span.queue.unit_at(span.end - 1)
            if span.queue.is_batch or (last is not None and last.physical < low):
                continue
            start = view.first_from(span.queue, span.start, span.end, low)
            end = span.end if high == _END else view.first_from(span.queue, start, span.end, high)
            if start < end:
                parts.append(span._replace(start=start, end=end))
    return parts


def uncovered(view: StoreView) -> list[Range]:
    """Ranges of the log that no index file vouches for, ascending.

    The keys of one record may be divided between two files: the first and the last record of a file count only if the
    neighbour that has the other half is there. (In front of the log's first record none is missing: an index file goes
    only after the last record it knows.)
    """
    gaps: list[Range] = []
    position, follows_at = view.reader.log_min, -1
    for index in _used(view):
        begin, end = index.header.begin_offset, index.header.end_offset
        if begin > position and begin != follows_at:
            gaps.append((position, begin + 1))
        size = int.from_bytes(view.reader.log.read(end, 4), "big")
        position, follows_at = end, end + size
    gaps.append((position, _END))
    return gaps


def _used(view: StoreView) -> list[StoredIndex]:
    used = [index for index in view.reader.indexes if index.geometry is not None and index.header.index_count > 1]
    return sorted(used, key=lambda index: index.header.begin_offset)


def _entries(view: StoreView, hashes: set[int]) -> Iterator[int]:
    for index in _used(view):
        for wanted in hashes:
            for entry in index.chain(wanted):
                if entry.key_hash == wanted:
                    yield entry.physical_offset


def _placed(
    view: StoreView, physical: int, spans: Sequence[UnitSpan], numbers: Sequence[int]
) -> tuple[int, tuple[int, ...]] | None:
    """Span and unit of the record that stands here, if it is in one of these spans and its queue leads back to it."""
    head = view.reader.log.read(physical, _PLACE.size)
    if len(head) < _PLACE.size:
        return None
    queue_id, offset = _PLACE.unpack(head)
    for number in numbers:
        span = spans[number]
        if span.queue.queue_id != queue_id or physical < span.log_start or offset >= span.end:
            continue
        unit = span.queue.unit_at(offset)
        if unit is not None and unit.physical == physical and unit.end > span.start:
            return number, (unit.offset, physical, unit.size, 0, unit.messages)
    return None
