"""TimerIndex: which record of the timer topic is due when. A heap in memory over sorted runs on disk.

An entry is a due time and a queue offset of the timer topic. New entries go into the heap. ``save`` writes the heap as
a *run*, a file of entries in order that never changes, and then the state file, which names all runs and how far each
is used up. Taking entries is a merge of the heap and the runs, of which only the next few kilobytes are in memory; so
memory stays bounded however many messages wait. Many small runs are merged into larger ones, like to like, so there
are some dozens at most and an entry is copied a few times in its life.

The topic is the truth, this is a view of it. The state says up to which queue offset the topic was read; what follows
is read again after a crash. Without a usable state everything is read again.

One run, all numbers big-endian:

    at  size  field
     0     8  due_ms         when the entry is to be taken
     8     8  queue_offset   of its record in the timer topic

The state file is a JSON object with a checksum (``checked_json``). Both lie in the folder ``flaremq.timer`` of the
store, which RocketMQ does not look at.
"""

from __future__ import annotations

import heapq
import logging
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from flaremq.errors import FlareMQError
from flaremq.storage.config.checked_json import read_checked_json, write_checked_json
from flaremq.storage.files.filesystem import File, FileSystem

_log = logging.getLogger(__name__)

UNIT = Struct(">qq")
assert UNIT.size == 16
FOLDER: Final = "flaremq.timer"
_STATE: Final = "state"
_CHUNK_UNITS: Final = 2048
_VERSION: Final = 1
_RUNS_OF_A_SIZE_MAX: Final = 8
_SIZE_STEP_BITS: Final = 3  # runs count as of one size within a factor of eight

Entry = tuple[int, int]


@dataclass(slots=True, eq=False)
class SortedRun:
    """A file of entries in order, read once from front to back. ``close`` it."""

    _file: File
    name: str
    count: int
    crc: int
    position: int  # of the first entry that was not taken
    shift_ms: int = 0  # to be added to all due times of the file
    _chunk: list[Entry] = field(default_factory=list)
    _chunk_at: int = 0

    @property
    def remaining(self) -> int:
        return self.count - self.position

    @property
    def head(self) -> Entry | None:
        """The next entry; None at the end."""
        if self.position >= self.count:
            return None
        at = self.position - self._chunk_at
        if not 0 <= at < len(self._chunk):
            self._chunk = list(UNIT.iter_unpack(self._read(self.position)))
            self._chunk_at, at = self.position, 0
        due_ms, queue_offset = self._chunk[at]
        return due_ms + self.shift_ms, queue_offset

    def entries(self, position: int, shift_ms: int) -> Iterator[Entry]:
        """All entries from a position on, past the chunk ``head`` uses."""
        while position < self.count:
            data = self._read(position)
            for due_ms, queue_offset in UNIT.iter_unpack(data):
                yield due_ms + shift_ms, queue_offset
            position += len(data) // UNIT.size

    def is_intact(self) -> bool:
        """Whether the file holds what it held when it was written; reads all of it."""
        crc = position = 0
        while position < self.count:
            data = self._file.read_at(position * UNIT.size, min(_CHUNK_UNITS * 16, self.count - position) * UNIT.size)
            if not data:
                return False
            crc = crc32(data, crc)
            position += len(data) // UNIT.size
        return crc == self.crc and self._file.size() == self.count * UNIT.size

    def count_before(self, bound_ms: int) -> int:
        """How many entries that were not taken are due at or before a time: a binary search in the file."""
        low, high = self.position, self.count
        while low < high:
            middle = (low + high) // 2
            data = self._file.read_at(middle * UNIT.size, UNIT.size)
            if len(data) == UNIT.size and UNIT.unpack(data)[0] + self.shift_ms <= bound_ms:
                low = middle + 1
            else:
                high = middle
        return low - self.position

    def _read(self, position: int) -> bytes:
        length = min(_CHUNK_UNITS, self.count - position) * UNIT.size
        data = self._file.read_at(position * UNIT.size, length)
        if len(data) != length:
            raise FlareMQError(f"{self._file.path} ended at entry {position}, expected {self.count}")
        return data

    def close(self) -> None:
        self._file.close()


class Merge(NamedTuple):
    """Runs that are being merged: from which positions on, with which shifts, into which file."""

    runs: list[SortedRun]
    positions: list[int]
    shifts_ms: list[int]
    name: str


class TimerIndex:
    """The entries of one store. One thread at a time; methods that touch the disk say so."""

    def __init__(self, filesystem: FileSystem, store_path: str) -> None:
        self._filesystem = filesystem
        self.folder = os.path.join(store_path, FOLDER)
        self._memory: list[Entry] = []
        self._runs: list[SortedRun] = []
        self._heads: list[tuple[int, int, int]] = []  # heap of (due, queue offset, place in _runs)
        self._sequence = 0
        self._merge: Merge | None = None

    # Starting

    def load(self) -> dict[str, Any] | None:
        """Open what was saved and return its notes; None, and an empty index, if there is nothing usable. Disk."""
        self._filesystem.make_directories(self.folder)
        try:
            state = read_checked_json(self._filesystem, self._path(_STATE), _VERSION)
            if state is not None:
                for name, *fields in state["runs"]:
                    run = SortedRun(self._filesystem.open(self._path(name), read_only=True), name, *fields)
                    self._runs.append(run)
                    if not run.is_intact():
                        raise ValueError(f"{name} is damaged")
                self._sequence = state["sequence"]
                self._rebuild_heads()
        except (FlareMQError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s is not usable (%s): the timer topic is read again", self.folder, error)
            self.clear()
            return None
        return None if state is None else state["notes"]

    def clear(self) -> None:
        """Forget everything in memory; the files go with the next save."""
        self.close()
        self._runs, self._heads, self._memory = [], [], []

    # Entries

    def add(self, due_ms: int, queue_offset: int) -> None:
        heapq.heappush(self._memory, (due_ms, queue_offset))

    def take_due(self, now_ms: int, count: int) -> list[Entry]:
        """Up to ``count`` due entries in order. They are gone: give back what could not be done. Disk."""
        memory, heads = self._memory, self._heads
        taken: list[Entry] = []
        while len(taken) < count:
            if heads and (not memory or heads[0][:2] < memory[0]):
                due_ms, queue_offset, place = heads[0]
                if due_ms > now_ms:
                    break
                run = self._runs[place]
                run.position += 1
                try:
                    head = run.head
                except FlareMQError:
                    run.position -= 1  # it stays, and what was taken before is not lost either
                    if taken:
                        break
                    raise
                if head is None:
                    heapq.heappop(heads)
                else:
                    heapq.heapreplace(heads, (*head, place))
                taken.append((due_ms, queue_offset))
            elif memory and memory[0][0] <= now_ms:
                taken.append(heapq.heappop(memory))
            else:
                break
        return taken

    def shift(self, shift_ms: int) -> None:
        """Move all entries in time; their order stays."""
        self._memory = [(due_ms + shift_ms, queue_offset) for due_ms, queue_offset in self._memory]
        for run in self._runs:
            run.shift_ms += shift_ms
        self._heads = [(due_ms + shift_ms, queue_offset, place) for due_ms, queue_offset, place in self._heads]

    def next_due_ms(self) -> int | None:
        """When the next entry is due."""
        candidates = [heap[0][0] for heap in (self._memory, self._heads) if heap]
        return min(candidates) if candidates else None

    @property
    def count(self) -> int:
        return len(self._memory) + sum(run.remaining for run in self._runs)

    def counts_before(self, bounds_ms: Sequence[int]) -> list[int]:
        """How many entries are due at or before each of these times. Disk."""
        memory = sorted(due_ms for due_ms, _ in self._memory)
        return [bisect_right(memory, bound) + sum(run.count_before(bound) for run in self._runs) for bound in bounds_ms]

    def queue_offsets(self) -> list[int]:
        """Of all entries, ascending. Disk."""
        found = [queue_offset for _, queue_offset in self._memory]
        for run in self._runs:
            found += [queue_offset for _, queue_offset in run.entries(run.position, 0)]
        return sorted(found)

    @property
    def memory_count(self) -> int:
        """Entries that exist in memory only."""
        return len(self._memory)

    @property
    def run_count(self) -> int:
        return len(self._runs)

    # Saving

    def save(self, notes: dict[str, Any]) -> None:
        """Make all entries durable, with the caller's notes on where he stands. Disk."""
        if self._memory:
            run = self._write_run(self._new_name(), sorted(self._memory))
            self._runs.append(run)
            self._memory = []
        merging = self._merge.runs if self._merge is not None else []
        used_up = [run for run in self._runs if not run.remaining and run not in merging]
        self._runs = [run for run in self._runs if run not in used_up]
        self._rebuild_heads()
        state = {
            "sequence": self._sequence,
            "runs": [[run.name, run.count, run.crc, run.position, run.shift_ms] for run in self._runs],
            "notes": notes,
        }
        write_checked_json(self._filesystem, self._path(_STATE), _VERSION, state)
        for run in used_up:
            run.close()
        self._remove_unnamed()

    def begin_merge(self) -> Merge | None:
        """Choose runs to be merged, if there are too many of one size; ``end_merge`` must follow."""
        by_size: dict[int, list[SortedRun]] = {}
        for run in self._runs:
            alike = by_size.setdefault(run.remaining.bit_length() // _SIZE_STEP_BITS, [])
            alike.append(run)
            if len(alike) >= _RUNS_OF_A_SIZE_MAX:
                positions, shifts_ms = [run.position for run in alike], [run.shift_ms for run in alike]
                self._merge = Merge(alike, positions, shifts_ms, self._new_name())
                return self._merge
        return None

    def merge(self, merge: Merge) -> SortedRun:
        """The merged run. Disk; on another thread the index may be used and saved meanwhile."""
        places = zip(merge.runs, merge.positions, merge.shifts_ms, strict=True)
        parts = [run.entries(position, shift_ms) for run, position, shift_ms in places]
        return self._write_run(merge.name, heapq.merge(*parts))

    def end_merge(self, merge: Merge, merged: SortedRun | None) -> None:
        """Use the merged run in place of its parts, if there is one; the next save makes it so on disk.

        What was taken from the parts since the merge began is exactly the beginning of the merged run.
        """
        self._merge = None
        if merged is None:
            return
        pairs = zip(merge.runs, merge.positions, strict=True)
        merged.position = sum(run.position - position for run, position in pairs)
        merged.shift_ms = merge.runs[0].shift_ms - merge.shifts_ms[0]  # all were moved alike meanwhile
        self._runs = [run for run in self._runs if run not in merge.runs] + [merged]
        for run in merge.runs:
            run.close()
        self._rebuild_heads()

    def close(self) -> None:
        for run in self._runs:
            run.close()

    def _write_run(self, name: str, entries: Iterable[Entry]) -> SortedRun:
        crc = count = 0
        file = self._filesystem.open(self._path(name), create=True)
        try:
            for chunk in _chunks(entries):
                data = b"".join([UNIT.pack(*entry) for entry in chunk])
                file.write_at(count * UNIT.size, data)
                crc = crc32(data, crc)
                count += len(chunk)
            file.sync()
            self._filesystem.sync_directory(self.folder)
        except BaseException:
            file.close()
            raise
        return SortedRun(file, name, count, crc, 0)

    def _new_name(self) -> str:
        """A name no file has: what a crash or an unusable index left is there until the next save."""
        while True:
            self._sequence += 1
            name = f"{self._sequence:010d}.run"
            if not self._filesystem.exists(self._path(name)):
                return name

    def _rebuild_heads(self) -> None:
        self._heads = [(*head, place) for place, run in enumerate(self._runs) if (head := run.head) is not None]
        heapq.heapify(self._heads)

    def _remove_unnamed(self) -> None:
        """Delete runs nobody needs; a name that stays is tried again next time."""
        named = {run.name for run in self._runs} | {_STATE}
        if self._merge is not None:
            named.add(self._merge.name)
        for name in self._filesystem.list_directory(self.folder):
            if name not in named:
                try:
                    self._filesystem.remove(self._path(name))
                except FlareMQError as error:
                    _log.warning("%s", error)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def _chunks(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    chunk: list[Entry] = []
    for entry in entries:
        chunk.append(entry)
        if len(chunk) >= _CHUNK_UNITS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
