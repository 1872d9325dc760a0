"""Checking consume queues against the log, both ways.

Forward: every record that belongs in a queue must have its unit at exactly its queue offset, with its own
position, size and tags code. Backward: every unit must have been claimed by a record. Together they say
"the queue is what the log makes of it" without holding either in memory: one byte per unit remembers the
claims.

Findings are kept per queue and merged where neighbours say the same, so a lost file is one line, not a
million. They come out at the end, because a topic that was deleted and created again starts over at offset
0: then what was said about its earlier life is void.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.at_rest.queues import StoredQueue, StoredUnit
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.dispatch.record_views import ExpectedUnit
from flaremq.storage.log.walk import DamagedRange
from flaremq.storage.verify.finding import Finding, Severity

_CHUNK_UNITS = 1 << 12
_DELAY_MAX_MS = 100 * 365 * 86_400_000


@dataclass(slots=True)
class _Remark:
    """Something said about units [first, end) of one queue."""

    kind: str
    severity: Severity
    first: int
    end: int
    detail: str


class QueueState:
    """One queue while the log is walked."""

    __slots__ = (
        "_chunk",
        "_chunk_first",
        "_claimed",
        "_claimed_others",
        "_first",
        "next_offset",
        "place",
        "queue",
        "remarks",
        "restarts",
    )

    def __init__(self, place: tuple[str, int], queue: StoredQueue | None) -> None:
        self.place = place
        self.queue = queue
        self.next_offset = -1  # queue offset the next record must have; -1 before the first
        self.remarks: list[_Remark] = []
        self.restarts = 0
        self._first = 0 if queue is None else queue.run.start // queue.unit_size
        self._claimed = bytearray(0 if queue is None or queue.is_batch else _table_length(queue))
        self._claimed_others: set[int] = set()  # batch units, not found by position, and those behind a wide gap
        self._chunk: dict[int, StoredUnit] = {}
        self._chunk_first = -1

    def unit(self, number: int) -> StoredUnit | None:
        """The unit with this queue offset; batch units are looked up by the offset they carry."""
        if self.queue is None:
            return None
        if self.queue.is_batch:
            if self._chunk_first < 0:
                self._chunk = {unit.queue_offset: unit for unit in self.queue.units()}
                self._chunk_first = 0
            return self._chunk.get(number)
        first = number // _CHUNK_UNITS * _CHUNK_UNITS
        if first != self._chunk_first:
            self._chunk = {unit.queue_offset: unit for unit in self.queue.units_between(first, first + _CHUNK_UNITS)}
            self._chunk_first = first
        return self._chunk.get(number)

    def claim(self, number: int) -> None:
        at = number - self._first
        if 0 <= at < len(self._claimed):
            self._claimed[at] = 1
        else:
            self._claimed_others.add(number)

    def claim_range(self, first: int, end: int) -> None:
        if end - self._first <= len(self._claimed):
            self._claimed[first - self._first : end - self._first] = b"\1" * (end - first)
        else:
            self._claimed_others.update(range(first, end))

    def is_claimed(self, number: int) -> bool:
        at = number - self._first
        return (0 <= at < len(self._claimed) and self._claimed[at] == 1) or number in self._claimed_others

    def restart(self) -> None:
        """The topic was made anew: forget what was said about its earlier life."""
        self.restarts += 1
        self.remarks.clear()
        self._claimed = bytearray(len(self._claimed))
        self._claimed_others.clear()

    def remark(self, kind: str, severity: Severity, number: int, count: int, detail: str) -> None:
        last = self.remarks[-1] if self.remarks else None
        if last is not None and (last.kind, last.severity, last.end) == (kind, severity, number):
            last.end = number + count
        else:
            self.remarks.append(_Remark(kind, severity, number, number + count, detail))


def _table_length(queue: StoredQueue) -> int:
    """Units from the first on, but no more than twice what is there: a stray file may lie anywhere behind."""
    there = sum(file.size for file in queue.run.files)
    return min(queue.run.end - queue.run.start, 2 * there) // queue.unit_size


class QueueChecker:
    """Feed it every record's expected units in log order, then ask for the findings."""

    def __init__(
        self,
        reader: StoreReader,
        queues: Sequence[StoredQueue],
        *,
        redispatch_from: int,
        known_topics: set[str] | None,
        damaged: list[DamagedRange],
    ) -> None:
        self._reader = reader
        self._damaged = damaged  # filled by the walk over the log as it goes
        self._redispatch_from = redispatch_from  # from here on, opening the store writes the units again
        self._known_topics = known_topics
        self._states = {
            (queue.topic, queue.queue_id): QueueState((queue.topic, queue.queue_id), queue) for queue in queues
        }
        self.units = 0
        self.contradicted: set[int] = set()  # physical offsets of records that a queue denies

    def check(self, unit: ExpectedUnit, *, physical_offset: int, size: int, store_timestamp: int) -> None:
        if self._reader.deleted.hides(unit.topic, physical_offset):
            return
        place = (unit.topic, unit.queue_id)
        state = self._states.get(place)
        if state is None:
            state = self._states[place] = QueueState(place, None)
        if unit.is_light and state.queue is None:
            return  # light queues are an option of the broker: without their folder they were off
        number = unit.queue_offset
        found = state.unit(number)
        if found is None or found.is_filler:
            state.next_offset = -1
            self._missing(state, unit, physical_offset, "a filler stands" if found else "nothing is written")
            return
        if (found.physical_offset, found.size) != (physical_offset, size):
            # Either side may be the false one, so this record says nothing about the order of the others.
            state.next_offset = -1
            wrong = (
                f"unit {number} says record {found.physical_offset} of {found.size} bytes, "
                f"the log has {physical_offset} of {size} bytes"
            )
            state.remark("unit-wrong", self._note_contradiction(physical_offset), number, 1, wrong)
            return
        self._check_order(state, unit, physical_offset)
        state.claim(number)
        if found.message_count != unit.message_count:
            counts = f"{found.message_count} messages, its record holds {unit.message_count}"
            wrong = f"unit {number} stands for {counts}"
            self.contradicted.add(physical_offset)
            state.remark("unit-wrong", Severity.DAMAGE, number, 1, wrong)
        elif found.tags_code != unit.tags_code:
            self._wrong_tags(state, unit, found, physical_offset, store_timestamp)

    def findings(self, *, log_end: int) -> Iterator[Finding]:
        """Everything said about the queues, now that the whole log was seen."""
        for _, state in sorted(self._states.items()):
            self._check_unclaimed(state, log_end)
            if state.restarts:
                yield self._finding(
                    state,
                    _Remark(
                        "queue-restarted",
                        Severity.NOTE,
                        0,
                        1,
                        "offsets start over at 0: the topic was deleted and created again",
                    ),
                )
            for remark in state.remarks:
                yield self._finding(state, remark)

    def _check_order(self, state: QueueState, unit: ExpectedUnit, physical_offset: int) -> None:
        number, expected = unit.queue_offset, state.next_offset
        if expected >= 0 and number != expected:
            if number == 0:
                state.restart()
            elif number > expected:
                missing = state.unit(expected)
                explained = missing is not None and (missing.is_filler or self._is_lost(missing))
                state.remark(
                    "queue-offset-gap",
                    Severity.NOTE if explained else Severity.WARNING,
                    expected,
                    number - expected,
                    f"the log has no record for queue offsets {expected} to {number - 1}",
                )
            else:
                self.contradicted.add(physical_offset)
                detail = f"two records claim queue offset {number}"
                state.remark("queue-offset-repeated", Severity.DAMAGE, number, 1, detail)
        state.next_offset = number + unit.message_count

    def _missing(self, state: QueueState, unit: ExpectedUnit, physical_offset: int, what: str) -> None:
        number = unit.queue_offset
        detail = f"{what} for queue offset {number}, record {physical_offset}"
        if physical_offset >= self._redispatch_from:
            state.remark("unit-pending", Severity.NOTE, number, unit.message_count, detail)
        elif state.queue is None and self._known_topics is not None and unit.topic not in self._known_topics:
            state.remark("queue-removed", Severity.NOTE, number, unit.message_count, "the topic was deleted")
        else:
            self.contradicted.add(physical_offset)
            state.remark("unit-missing", Severity.DAMAGE, number, unit.message_count, detail)

    def _wrong_tags(
        self,
        state: QueueState,
        unit: ExpectedUnit,
        found: StoredUnit,
        physical_offset: int,
        store_timestamp: int,
    ) -> None:
        number = unit.queue_offset
        if found.ext_address is not None and found.tags_code == found.ext_address:
            detail = f"unit {number} points into the ext file at {found.ext_address + 2**63}, where no unit is"
            state.remark("ext-missing", Severity.WARNING, number, 1, detail)
            return
        detail = f"unit {number} has tags code {found.tags_code}, its record gives {unit.tags_code}"
        kind = "tags-code-wrong"
        if unit.topic == SCHEDULE_TOPIC:
            kind, delay = "due-time-wrong", found.tags_code - store_timestamp
            if _is_a_delay(delay):
                detail = f"messages wait {delay} ms here: written with another messageDelayLevel; give it with --set"
                state.remark(f"delay-level-differs:{delay}", Severity.NOTE, number, 1, detail)
                return
        state.remark(kind, self._note_contradiction(physical_offset), number, 1, detail)

    def _note_contradiction(self, physical_offset: int) -> Severity:
        severity = self._severity(physical_offset)
        if severity is Severity.DAMAGE:
            self.contradicted.add(physical_offset)
        return severity

    def _check_unclaimed(self, state: QueueState, log_end: int) -> None:
        if state.queue is None:
            return
        # Units already called wrong when their record was met; each such remark spans as many as were met.
        said = {
            number
            for remark in state.remarks
            if remark.kind == "unit-wrong"
            for number in range(remark.first, remark.end)
        }
        for unit in state.queue.units():
            self.units += 1
            number = unit.queue_offset
            if not (state.is_claimed(number) or unit.is_filler or number in said):
                self._unclaimed(state, unit, log_end)

    def _unclaimed(self, state: QueueState, unit: StoredUnit, log_end: int) -> None:
        number, start, end = unit.queue_offset, unit.physical_offset, unit.physical_offset + unit.size
        place = f"unit {number} points to record {start} of {unit.size} bytes"
        if not unit.is_real:
            state.remark("unit-wrong", Severity.DAMAGE, number, 1, f"{place}, which is impossible")
        elif end > log_end:
            severity = Severity.DAMAGE if self._reader.closed_cleanly else Severity.NOTE
            state.remark("unit-behind-log", severity, number, 1, f"{place}, the log ends at {log_end}")
        elif start < self._reader.log_min:
            return  # expired: the record was deleted with its log file
        elif self._reader.deleted.hides(state.place[0], start):
            detail = f"{place}, of before the topic was deleted"
            state.remark("unit-of-deleted-topic", Severity.NOTE, number, 1, detail)
        elif self._is_lost(unit):
            state.remark("unit-of-lost-record", Severity.NOTE, number, 1, f"{place}, which is damaged")
        elif state.restarts:
            return  # left from the topic's earlier life
        else:
            # A witness also where the next start writes units anew: that start would hide the record from its queue.
            self.contradicted.add(start)
            state.remark("unit-wrong", self._severity(start), number, 1, f"{place}, which is not in this queue")

    def _is_lost(self, unit: StoredUnit) -> bool:
        """Whether its record lies in a damaged range, which is reported with the log."""
        start, end = unit.physical_offset, unit.physical_offset + unit.size
        return any(start < lost.end and lost.start < end for lost in self._damaged)

    def _severity(self, physical_offset: int) -> Severity:
        """Opening a store after a crash writes what lies behind its last known state again."""
        pending = physical_offset >= self._redispatch_from
        return Severity.NOTE if pending else Severity.DAMAGE

    def _finding(self, state: QueueState, remark: _Remark) -> Finding:
        topic, queue_id = state.place
        kind = remark.kind.partition(":")[0]
        more = remark.end - remark.first - 1
        detail = f"{topic}@{queue_id}: {remark.detail}" + (f" (and {more} more)" if more > 0 else "")
        if state.queue is None:
            return Finding(
                self._reader.layout.path("consumequeue", topic, str(queue_id)),
                None,
                kind,
                detail,
                remark.severity,
            )
        position = remark.first * state.queue.unit_size
        file = state.queue.run.file_at(position)
        if file is None or state.queue.is_batch:
            folder = state.queue.folder
            return Finding(folder, None, kind, detail, remark.severity)
        return Finding(file.path, position - file.start, kind, detail, remark.severity)


def _is_a_delay(delay_ms: int) -> bool:
    """Whether some level table can have it: levels are whole seconds. No flipped bit makes one whole number of seconds
    of another, since no power of two is a multiple of 1,000."""
    return 0 <= delay_ms <= _DELAY_MAX_MS and delay_ms % 1000 == 0
