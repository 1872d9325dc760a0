"""Messages by key for a scan: through the index files where they reach, through the queues where they do not.

An index file vouches for the log from its first record to its last. What lies between two files, before the first and
behind the last is searched in the queues: mostly nothing, or the records of the last moments. A file whose geometry is
unknown, or in which a chain of the keys is visibly broken, vouches for nothing, and of an inner batch the index knows
the keys of the record only, so batch queues are always searched. Texts are compared on the record, so another key with
the same hash is not found.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flaremq.message.java_hash import index_hash
from flaremq.message.record.layout import HEADER, MAGIC_V1, MAGIC_V2
from flaremq.storage.arrow.units import PlacedUnits, UnitSpan
from flaremq.storage.at_rest.indexes import StoredIndex
from flaremq.storage.at_rest.unit_arrays import Units
from flaremq.storage.at_rest.view import StoreView

_log = logging.getLogger(__name__)
_END = 2**63 - 1

Range = tuple[int, int]  # physical offsets [low, high)


class KeyHits(NamedTuple):
    """What the index found, and the parts of the spans that must be searched."""

    units: PlacedUnits
    rest: list[UnitSpan]


def find_keys(view: StoreView, keys: Sequence[str], spans: Sequence[UnitSpan]) -> KeyHits:
    """Units within the spans whose index entries have the hash of one of the keys, in the order of the log."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for number, span in enumerate(spans):
        if not span.queue.is_batch:
            by_topic[span.queue.topic].append(number)
    hashes = {topic: {index_hash(topic, key) for key in keys} for topic in by_topic}
    sound, entries = _entries(view, set().union(*hashes.values()))
    gaps = uncovered(view, sound)
    rest = _unindexed(view, spans, gaps)
    found: dict[int, tuple[int, tuple[int, ...]]] = {}
    for topic, numbers in by_topic.items():
        for physical in {place for wanted in hashes[topic] for place in entries.get(wanted, ())}:
            if not any(low <= physical < high for low, high in gaps):
                placed = _placed(view, physical, spans, numbers, rest)
                if placed is not None:
                    found.setdefault(physical, placed)
    order = sorted(found)
    fields = np.array([found[physical][1] for physical in order], np.int64).reshape(-1, 5)
    units = Units(*(np.ascontiguousarray(fields[:, column]) for column in range(5)))
    return KeyHits(PlacedUnits(units, np.array([found[physical][0] for physical in order], np.int64)), rest)


def _unindexed(view: StoreView, spans: Sequence[UnitSpan], gaps: Sequence[Range]) -> list[UnitSpan]:
    """The parts of the spans that no index file vouches for."""
    if not _used(view):
        _log.warning(
            "%s has no key index that can be read (index files missing, or sizes other than RocketMQ's: set "
            "maxHashSlotNum and maxIndexNum); keys are searched by a scan",
            view.root,
        )
        return list(spans)
    parts = [span for span in spans if span.queue.is_batch]
    for low, high in gaps:
        for span in spans:
            last = span.queue.unit_at(span.end - 1)
            if span.queue.is_batch or (last is not None and last.physical < low):
                continue
            start = view.first_from(span.queue, span.start, span.end, low)
            end = span.end if high == _END else view.first_from(span.queue, start, span.end, high)
            if start < end:
                parts.append(span._replace(start=start, end=end))
    return parts


def uncovered(view: StoreView, indexes: Sequence[StoredIndex]) -> list[Range]:
    """Ranges of the log that none of these index files vouches for, ascending.

    The keys of one record may be divided between two files: the first and the last record of a file count only if the
    neighbour that has the other half is there. (In front of the log's first record none is missing: an index file goes
    only after the last record it knows.)
    """
    gaps: list[Range] = []
    position, follows_at = view.reader.log_min, -1
    for index in indexes:
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


def _entries(view: StoreView, hashes: set[int]) -> tuple[list[StoredIndex], dict[int, list[int]]]:
    """Index files that can be believed about these hashes, and what they say: physical offsets by hash."""
    sound: list[StoredIndex] = []
    entries: dict[int, list[int]] = defaultdict(list)
    for index in _used(view):
        chains = {wanted: _chain(view, index, wanted) for wanted in hashes}
        if not _header_fits(view, index) or None in chains.values():
            _log.warning("%s is damaged; the keys of its records are searched by a scan", index.path)
            continue
        sound.append(index)
        for wanted, places in chains.items():
            entries[wanted] += places or ()
    return sound, entries


def _header_fits(view: StoreView, index: StoredIndex) -> bool:
    """Whether the range the file vouches for is that of its entries."""
    header, geometry = index.header, index.geometry
    if geometry is None or header.index_count > geometry.entries:
        return False
    is_final = view.reader.closed_cleanly and not view.is_held
    if index.path == view.reader.indexes[-1].path and not is_final:
        return True  # a writer sets count and offsets one after the other
    first, last = index.entry(1), index.entry(header.index_count - 1)
    if first is None or last is None:
        return False
    return (first.physical_offset, last.physical_offset) == (header.begin_offset, header.end_offset)


def _chain(view: StoreView, index: StoredIndex, wanted: int) -> list[int] | None:
    """Where the records with this hash stand; None if a link or an entry on the way cannot be right."""
    geometry, header = index.geometry, index.header
    assert geometry is not None
    slot = wanted % geometry.slots
    number, bound = index.slot(slot), header.index_count + 1
    places: list[int] = []
    while number:
        entry = index.entry(number) if 0 < number < min(bound, geometry.entries) else None
        if entry is None or entry.key_hash < 0 or entry.key_hash % geometry.slots != slot or entry.seconds < 0:
            return None
        physical = entry.physical_offset
        if physical < header.begin_offset or (number < header.index_count and physical > header.end_offset):
            return None
        if entry.key_hash == wanted:
            if not _reads_back(view, physical):
                return None
            places.append(physical)
        bound, number = number, entry.previous  # links lead to older entries only, so this ends
    return places


def _reads_back(view: StoreView, physical: int) -> bool:
    """Whether a record stands here; always said of stores whose end is not settled, and of what has expired."""
    reader = view.reader
    if physical < reader.log_min or view.is_held or not reader.closed_cleanly:
        return True
    head = reader.log.read(physical, HEADER.size)
    if len(head) < HEADER.size:
        return False
    fields = HEADER.unpack(head)
    return fields[1] in (MAGIC_V1, MAGIC_V2) and fields[6] == physical


def _placed(
    view: StoreView, physical: int, spans: Sequence[UnitSpan], numbers: Sequence[int], rest: list[UnitSpan]
) -> tuple[int, tuple[int, ...]] | None:
    """Span and unit of the record that stands here, if it is in one of these spans and its queue leads back to it.

    A unit that leads nowhere is added to the rest, for the search to say so.
    """
    head = view.reader.log.read(physical, HEADER.size)
    if len(head) < HEADER.size:
        return None
    _, _, _, queue_id, _, offset, _, _, _ = HEADER.unpack(head)
    for number in numbers:
        span = spans[number]
        if span.queue.queue_id != queue_id or physical < span.log_start or offset >= span.end:
            continue
        unit = span.queue.unit_at(offset)
        if unit is not None and unit.physical == physical and unit.end > span.start:
            return number, (unit.offset, physical, unit.size, 0, unit.messages)
        if offset >= span.start and (unit is None or not (unit.is_real or unit.is_filler)):
            rest.append(span._replace(start=offset, end=offset + 1))
    return None
