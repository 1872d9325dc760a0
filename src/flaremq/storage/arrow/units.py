"""The units of a scan: of one span in chunks, of many spans merged in the order of the log.

A span's units are filtered before any record is read: filler goes, and with a tag filter everything whose tag hash
differs. What is missing (files that retention took, units never written) is a loss and told to ``Losses``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from flaremq.core.arrays import Integers
from flaremq.errors import CorruptionError, FlareMQError, UnavailableError
from flaremq.message.java_hash import tags_code
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.at_rest.unit_arrays import Mask, ScanQueue, Units, joined
from flaremq.storage.queue.consume_queue import FILLER_SIZE

_log = logging.getLogger(__name__)
_CHUNK_UNITS = 1 << 16
_CHUNK_UNITS_MIN = 64
_MERGED_UNITS = 1 << 20  # kept in memory over all spans of a scan: some 50 MB


class UnitSpan(NamedTuple):
    """Queue offsets [start, end) of one queue; records before ``log_start`` do not count any more.

    No record lies behind ``log_end`` or is larger than ``size_max``.
    """

    queue: ScanQueue
    start: int
    end: int
    log_start: int
    log_end: int = 2**63 - 1
    size_max: int = FILLER_SIZE


@dataclass(slots=True)
class Losses:
    """What a scan could not read: an error at once, or counted and told at its end."""

    fail: bool
    root: str
    damaged: int = 0
    vanished: int = 0
    first: str = field(default="")

    def vanish(self, span: UnitSpan, offset: int, count: int) -> None:
        where = f"queue offset {offset} of {span.queue.topic}/{span.queue.queue_id} in {self.root}"
        if self.fail:
            raise UnavailableError(
                f"{where} has been deleted by retention since the query was planned; "
                f"set failOnDataLoss=false to skip what is gone"
            )
        self.vanished += count
        self.first = self.first or where

    def damage(self, error: FlareMQError, count: int) -> None:
        if self.fail:
            raise error
        self.damaged += count
        self.first = self.first or str(error)

    def tell(self) -> None:
        """One warning for all of it."""
        if self.damaged or self.vanished:
            _log.warning(
                "%s: %d damaged and %d deleted messages were left out; the first: %s",
                self.root,
                self.damaged,
                self.vanished,
                self.first,
            )


class SpanReader:
    """The wanted units of one span, chunk by chunk."""

    def __init__(self, span: UnitSpan, tags: frozenset[str], losses: Losses, chunk_units: int = _CHUNK_UNITS) -> None:
        self.span = span
        self._position = span.start
        self._losses = losses
        self._chunk_units = chunk_units
        self._codes: Integers | None = None
        # The schedule topic keeps due times in place of hashes, and an inner batch has messages of several tags.
        if tags and span.queue.topic != SCHEDULE_TOPIC and not span.queue.is_batch:
            self._codes = np.array(sorted({tags_code(tag) for tag in tags}), np.int64)

    @property
    def is_done(self) -> bool:
        return self._position >= self.span.end

    def next_chunk(self) -> Units:
        """Units of real records, ascending; may be empty although the span goes on."""
        start = self._position
        units, self._position = self.span.queue.read(start, self.span.end, self._chunk_units)
        if not len(units.offset):
            return units
        there = units.is_real & (units.physical >= self.span.log_start)
        there &= (units.size <= self.span.size_max) & (units.physical <= self.span.log_end - units.size)
        if not there.all():
            self._tell_losses(units, there)
        # Records of a queue stand in the log in its order and apart; a unit that says otherwise is damaged.
        physical = units.physical
        if len(physical) > 1 and not (physical[1:] >= physical[:-1] + units.size[:-1]).all():
            units = units.choose(there)
            there = _in_order(units)
            if not there.all():
                self._damage(units, ~there)
        if self._codes is not None:
            there &= np.isin(units.code, self._codes)
        return units if there.all() else units.choose(there)

    def _tell_losses(self, units: Units, there: Mask) -> None:
        queue = self.span.queue
        wrong = ~(there | units.is_filler)
        # Retention takes a queue from its start: behind a record that is there, none has expired.
        first = int(np.argmax(there)) if there.any() else len(there)
        gone = wrong & units.is_real & (units.physical < self.span.log_start) & (np.arange(len(there)) < first)
        gone |= wrong & (units.offset < queue.file_start)
        if queue.stored is None and queue.tail is None:
            gone = wrong
        if gone.any():
            self._losses.vanish(self.span, int(units.offset[np.argmax(gone)]), int(units.messages[gone].sum()))
        if (wrong & ~gone).any():
            self._damage(units, wrong & ~gone)

    def _damage(self, units: Units, which: Mask) -> None:
        queue, first = self.span.queue, int(np.argmax(which))
        error = CorruptionError(
            f"the unit of queue offset {int(units.offset[first])} of {queue.topic}/{queue.queue_id} leads to no record",
            path=self._losses.root if queue.stored is None else queue.stored.folder,
            advice=(
                f"; the queue is made again from the log by flaremq pipeline rebuild --path {self._losses.root} "
                f"--in-place, or set failOnDataLoss=false to skip it"
            ),
        )
        self._losses.damage(error, int(units.messages[which].sum()))


def _in_order(units: Units) -> Mask:
    """The most units whose records can follow each other: one wrong place or size costs one unit."""
    if (units.physical[1:] >= units.physical[:-1] + units.size[:-1]).all():
        return np.ones(len(units.offset), bool)
    right = np.zeros(len(units.offset), bool)
    ends: list[int] = []  # the smallest last place of an ascending row, by the row's length
    last: list[int] = []  # which unit that is
    before: list[int] = []
    for number, physical in enumerate(units.physical.tolist()):
        length = bisect_left(ends, physical)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(physical)
            last.append(number)
        else:
            ends[length], last[length] = physical, number
    number = last[-1] if last else -1
    while number >= 0:
        right[number] = True
        number = before[number]
    kept = np.flatnonzero(right)
    physical, size = units.physical[kept], units.size[kept]
    right[kept[:-1][physical[1:] < physical[:-1] + size[:-1]]] = False
    return right


class PlacedUnits(NamedTuple):
    """Units of several spans in the order of the log; ``span`` is each one's number in the list of spans."""

    units: Units
    span: Integers


def merged_units(spans: Sequence[UnitSpan], tags: frozenset[str], losses: Losses) -> Iterator[PlacedUnits]:
    """The units of all spans by physical offset, in blocks; the log is then read once, forwards."""
    chunk = min(max(_MERGED_UNITS // max(len(spans), 1), _CHUNK_UNITS_MIN), _CHUNK_UNITS)
    readers = [SpanReader(span, tags, losses, chunk) for span in spans]
    waiting = [Units.none() for _ in readers]
    live = list(range(len(readers)))
    while live:
        for number in live:
            while not len(waiting[number].offset) and not readers[number].is_done:
                waiting[number] = readers[number].next_chunk()
        live = [number for number in live if len(waiting[number].offset)]
        if not live:
            return
        # Beyond the end of the shortest chunk another span's next units might come first.
        horizon = min(
            (int(waiting[number].physical[-1]) for number in live if not readers[number].is_done), default=2**63 - 1
        )
        parts, owners = [], []
        for number in live:
            units = waiting[number]
            cut = int(np.searchsorted(units.physical, horizon, side="right"))
            if cut:
                parts.append(units.choose(slice(0, cut)))
                owners.append(np.full(cut, number, np.int64))
                waiting[number] = units.choose(slice(cut, None))
        if len(parts) == 1:
            yield PlacedUnits(parts[0], owners[0])
            continue
        units, span = joined(parts), np.concatenate(owners)
        order = np.argsort(units.physical, kind="stable")
        yield PlacedUnits(units.choose(order), span[order])
