"""Checking the key index: each file in itself, and all of them against the log.

Entries are appended in log order, so the entries of all files, one after the other, and the keys of all
records, one after the other, are two sequences that must agree: a merge finds what is missing and what is
surplus without a table of either. An entry whose offset is out of order is set aside first, or one flipped
bit would make every later key look lost.

In itself a file must be what putting its entries one by one leaves behind: each entry's link is the slot's
previous value, each slot its last entry, the header's ends the first and last entry.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from flaremq.storage.at_rest.indexes import IndexEntry, StoredIndex
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.index.index_file import HEADER, SLOT
from flaremq.storage.log.walk import DamagedRange
from flaremq.storage.verify.finding import Finding, Severity

_INT_MAX = 2**31 - 1


@dataclass(slots=True)
class _Span:
    """Neighbouring findings of one kind, reported as one."""

    first: Finding
    count: int = 1


class IndexChecker:
    """Feed it every record's hashes in log order, then ask for the findings."""

    def __init__(
        self,
        reader: StoreReader,
        *,
        redispatch_from: int,
        damaged: list[DamagedRange],
    ) -> None:
        self._reader = reader
        self._damaged = damaged  # filled by the walk over the log as it goes
        self._redispatch_from = redispatch_from
        self._spans: list[_Span] = []
        self._last_place: tuple[str, str, int] | None = None
        self._indexes = [index for index in reader.indexes if index.geometry is not None]
        self._covered = [
            (index.header.begin_offset, index.header.end_offset)
            for index in self._indexes
            if index.header.index_count > 1
        ]
        self.entries = 0
        self._entries = self._ordered_entries()
        self._pending: tuple[StoredIndex, IndexEntry] | None = next(self._entries, None)
        self._is_used = bool(self._covered) or not reader.closed_cleanly
        self._keys_seen = False
        self._ordinal = 0  # of records with keys, to tell neighbours
        self.contradicted: set[int] = set()  # physical offsets of records that the index denies

    def check(self, hashes: list[int], *, tag_hash: int | None, physical_offset: int, store_timestamp: int) -> None:
        """One record; its keys must be indexed, its tag may be."""
        self._keys_seen |= bool(hashes)
        if not self._is_used or not (hashes or tag_hash is not None):
            return
        self._ordinal += 1
        self._skip_to(physical_offset)
        missing = Counter(hashes)
        allowed = (*hashes, tag_hash)
        while self._pending is not None and self._pending[1].physical_offset == physical_offset:
            index, entry = self._pending
            if entry.key_hash not in allowed:
                self.contradicted.add(physical_offset)
                self._report_entry(
                    index,
                    entry,
                    "index-hash-wrong",
                    f"has hash {entry.key_hash}, no key of record {physical_offset} has",
                )
            elif missing[entry.key_hash] > 0:
                missing[entry.key_hash] -= 1
            # else: indexed twice, which happens when a record is dispatched again after a restart
            self._check_time(index, entry, store_timestamp)
            self._pending = next(self._entries, None)
        lost = +missing
        if lost:
            self._missing(physical_offset, sum(lost.values()))

    def findings(self) -> Iterator[Finding]:
        """Everything said about the index; reads what is left of it first."""
        self._skip_to(2**63 - 1)
        for span in self._spans:
            first = span.first
            more = f" (and {span.count - 1} more)" if span.count > 1 else ""
            yield Finding(first.path, first.offset, first.kind, first.detail + more, first.severity)
        yield from self._size_findings()
        if self._keys_seen and not self._reader.indexes and not self._is_used:
            yield Finding(
                self._reader.layout.index,
                None,
                "index-absent",
                "there is no key index: queries find nothing",
                Severity.NOTE,
            )

    def _skip_to(self, physical_offset: int) -> None:
        """Entries before this record that no record claimed."""
        while self._pending is not None and self._pending[1].physical_offset < physical_offset:
            index, entry = self._pending
            offset = entry.physical_offset
            if offset >= self._reader.log_min:
                pending = offset >= self._redispatch_from
                lost = any(damage.start <= offset < damage.end for damage in self._damaged)
                detail = f"leads to offset {offset}, where no record with a key starts"
                severity = Severity.NOTE if pending or lost else Severity.DAMAGE
                self._report_entry(index, entry, "index-entry-dangling", detail, severity)
            self._pending = next(self._entries, None)

    def _check_time(self, index: StoredIndex, entry: IndexEntry, store_timestamp: int) -> None:
        header = index.header
        begin = header.begin_timestamp
        if entry.number == 1 and begin != store_timestamp:
            self._report_header(index, f"begins at {begin}, its first record was stored at {store_timestamp}")
        if entry.number == header.index_count - 1 and header.end_timestamp != store_timestamp:
            end = header.end_timestamp
            self._report_header(index, f"ends at {end}, its last record was stored at {store_timestamp}")
        expected = min(max(store_timestamp - begin, 0) // 1000, _INT_MAX) if begin > 0 else 0
        # The first entry of a file is timed against the end of the file before, so it may say anything.
        if entry.seconds != expected and entry.number > 1:
            self.contradicted.add(entry.physical_offset)
            detail = f"says {entry.seconds} s after the file's begin, its record was stored {expected} s after"
            self._report_entry(index, entry, "index-time-wrong", detail)

    def _missing(self, physical_offset: int, count: int) -> None:
        path = self._reader.layout.index
        detail = f"{count} key(s) of record {physical_offset} are not indexed"
        unindexed = self._reader.unindexed_from
        if unindexed is not None and physical_offset >= unindexed:
            kind, severity = "key-pending", Severity.NOTE
            detail += ": messageIndexEnable was false; the next start with it completes the index"
        elif physical_offset >= self._redispatch_from:
            kind, severity = "key-pending", Severity.NOTE
        elif any(begin <= physical_offset <= end for begin, end in self._covered):
            kind, severity = "key-missing", Severity.DAMAGE
            self.contradicted.add(physical_offset)
        else:
            # RocketMQ drops its newest index file after a crash; the messages are there, queries miss them.
            kind, severity = "key-not-indexed", Severity.WARNING
        self._report(Finding(path, None, kind, detail, severity), (path, kind, self._ordinal))

    def _report_entry(
        self,
        index: StoredIndex,
        entry: IndexEntry,
        kind: str,
        detail: str,
        severity: Severity = Severity.DAMAGE,
    ) -> None:
        assert index.geometry is not None
        at = index.geometry.entry_position(entry.number)
        finding = Finding(index.path, at, kind, f"entry {entry.number} {detail}", severity)
        self._report(finding, (index.path, kind, entry.number))

    def _report(self, finding: Finding, place: tuple[str, str, int]) -> None:
        last = self._last_place
        if (
            last is not None
            and (last[0], last[1], last[2] + 1) == place
            and self._spans[-1].first.severity == finding.severity
        ):
            self._spans[-1].count += 1
        else:
            self._spans.append(_Span(finding))
        self._last_place = place

    def _ordered_entries(
        self, reached: int = -1, behind: int | None = None
    ) -> Iterator[tuple[StoredIndex, IndexEntry]]:
        """All entries whose offset fits between its neighbours'; the others are reported and left out."""
        ahead: tuple[StoredIndex, IndexEntry] | None = None
        for following in self._all_entries():
            if ahead is not None and self._fits(ahead, reached, following[1].physical_offset):
                reached = ahead[1].physical_offset
                yield ahead
            ahead = following
        if ahead is not None and self._fits(ahead, reached, behind):
            yield ahead

    def _fits(self, item: tuple[StoredIndex, IndexEntry], reached: int, following: int | None) -> bool:
        index, entry = item
        offset = entry.physical_offset
        stands_out = following is not None and reached <= following < offset
        if offset < max(reached, 0) or stands_out:
            self._report_entry(index, entry, "index-entry-wrong", f"has offset {offset}, out of order")
            return False
        return True

    def _all_entries(self) -> Iterator[tuple[StoredIndex, IndexEntry]]:
        for index in self._indexes:
            yield from self._entries_of(index)

    def _entries_of(self, index: StoredIndex) -> Iterator[tuple[StoredIndex, IndexEntry]]:
        """The entries of one file, its chains and slots checked on the way."""
        geometry, header = index.geometry, index.header
        assert geometry is not None
        newest = array("i", bytes(4 * geometry.slots))
        first: IndexEntry | None = None
        last: IndexEntry | None = None
        for entry in index.entries():
            self.entries += 1
            slot = entry.key_hash % geometry.slots
            if entry.key_hash < 0 or entry.previous != newest[slot]:
                detail = f"links to {entry.previous}, the entry before it in slot {slot} is {newest[slot]}"
                self._report_entry(index, entry, "index-chain-wrong", detail)
            newest[slot] = entry.number
            first, last = first or entry, entry
            yield index, entry
        used = sum(map(bool, newest))
        self._check_slots(index, newest)
        if first is not None and last is not None:
            ends = (header.begin_offset, header.end_offset)
            found = (first.physical_offset, last.physical_offset)
            if ends != found:
                self._report_header(index, f"says records {ends[0]} to {ends[1]}, entries {found[0]} to {found[1]}")
        if header.index_count > geometry.entries:
            self._report_header(index, f"counts {header.index_count} entries, {geometry.entries} fit")
        if header.slot_count != used:
            # Informative only, and older versions of RocketMQ counted entries here.
            detail = f"the header counts {header.slot_count} slots in use, {used} are"
            place = (index.path, "index-slot-count", -2)
            self._report(Finding(index.path, 32, "index-slot-count", detail, Severity.NOTE), place)

    def _check_slots(self, index: StoredIndex, newest: array[int]) -> None:
        for number, value in index.slots():
            if value != newest[number]:
                # A process killed between writing the slot and counting the entry leaves a slot one ahead.
                torn = not self._reader.closed_cleanly and value == index.header.index_count
                self._report_slot(index, number, value, newest[number], Severity.NOTE if torn else Severity.DAMAGE)
            newest[number] = 0
        for number in (at for at, value in enumerate(newest) if value):
            self._report_slot(index, number, 0, newest[number], Severity.DAMAGE)

    def _report_slot(self, index: StoredIndex, number: int, value: int, expected: int, severity: Severity) -> None:
        detail = f"slot {number} leads to entry {value}, its newest is {expected}"
        finding = Finding(index.path, HEADER.size + number * SLOT.size, "index-slot-wrong", detail, severity)
        self._report(finding, (index.path, "index-slot-wrong", number))

    def _report_header(self, index: StoredIndex, detail: str) -> None:
        self._report(
            Finding(index.path, 0, "index-header-wrong", f"the header {detail}", Severity.DAMAGE),
            (index.path, "index-header-wrong", -2),
        )

    def _size_findings(self) -> Iterator[Finding]:
        known = min((index.size for index in self._indexes), default=None)
        for index in self._reader.indexes:
            if index.geometry is None and index.header.index_count > 1:
                if known is None:
                    why = "unknown slot and entry counts; set maxHashSlotNum and maxIndexNum"
                    severity = Severity.WARNING
                else:
                    why, severity = f"other index files have {known}", Severity.DAMAGE
                yield Finding(index.path, None, "index-size", f"{index.size} bytes: {why}", severity)
