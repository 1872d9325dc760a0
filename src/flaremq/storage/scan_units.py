"""The units of a scan: of one span in chunks, of many spans merged in the order of the log.

A span's units are filtered before any record is read: filler goes, and with a tag filter everything whose tag hash
differs. What is missing (files that retention took, units never written) is a loss and told to ``Losses``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from flaremq.errors import CorruptionError, FlareMQError, UnavailableError
from flaremq.message.java_hash import tags_code
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.kernels import Integers
from flaremq.storage.scan_queue import Mask, ScanQueue, Units, joined

_log = logging.getLogger(__name__)
_CHUNK_UNITS = 1 << 16
_CHUNK_UNITS_MIN = 64
_MERGED_UNITS = 1 << 20  # kept in memory over all spans of a scan: some 50 MB


class UnitSpan(NamedTuple):
    """Queue offsets [start, end) of one queue; records before ``log_start`` do not count any more."""

    queue: ScanQueue
    start: int
    end: int
    log_start: int


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
        real = units.is_real
        there = real & (units.physical >= self.span.log_start)
        if not there.all():
            self._tell_losses(units, real, there)
        # Records of a queue stand in the log in its order; a unit that says otherwise is damaged.
        physical = units.physical
        if len(physical) > 1 and not (physical[1:] > physical[:-1]).all():
            units = units.choose(there)
            there = _ascending(units.physical)
            lost = int(len(there) - there.sum())
            if lost:
                where = units.offset[np.argmin(there)]
                self._losses.damage(self._unit_error(int(where)), lost)
        if self._codes is not None:
            there &= np.isin(units.code, self._codes)
        return units if there.all() else units.choose(there)

    def _tell_losses(self, units: Units, real: Mask, there: Mask) -> None:
        gone = real & ~there
        if gone.any():
            self._losses.vanish(self.span, int(units.offset[np.argmax(gone)]), int(units.messages[gone].sum()))
        empty = ~(real | units.is_filler)
        if empty.any():
            first, count = int(units.offset[np.argmax(empty)]), int(empty.sum())
            queue = self.span.queue
            if first < queue.file_start or (queue.stored is None and queue.tail is None):
                self._losses.vanish(self.span, first, count)
            else:
                self._losses.damage(self._unit_error(first), count)

    def _unit_error(self, offset: int) -> CorruptionError:
        queue = self.span.queue
        path = self._losses.root if queue.stored is None else queue.stored.folder
        return CorruptionError(
            f"the unit of queue offset {offset} leads to no record; the queue can be rebuilt from the log, "
            f"or set failOnDataLoss=false to skip it",
            path=path,
        )


def _ascending(physical: Integers) -> Mask:
    if not len(physical):
        return np.ones(0, bool)
    highest = np.maximum.accumulate(physical)
    right = np.ones(len(physical), bool)
    right[1:] = physical[1:] > highest[:-1]
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
