"""The entries of all index files as one sequence, numbered from 0, and compared many at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from flaremq.core.arrays import Integers
from flaremq.storage.at_rest.indexes import StoredIndex
from flaremq.storage.index.index_file import ENTRY_SIZE

ENTRY = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_INT_MAX = 2**31 - 1
_WINDOW_ENTRIES = 1 << 15


def entries_end(index: StoredIndex) -> int:
    """Number behind the last entry that is counted and has a place."""
    assert index.geometry is not None
    return min(index.header.index_count, index.geometry.entries)


def with_entries(indexes: Sequence[StoredIndex]) -> list[StoredIndex]:
    """The files that can be read and hold entries."""
    return [index for index in indexes if index.geometry is not None and entries_end(index) > 1]


class EntryCursor:
    """Reads the entries in order, from the first that leads to ``log_offset`` or behind it."""

    def __init__(self, indexes: Sequence[StoredIndex], log_offset: int) -> None:
        self._files = with_entries(indexes)
        self._firsts = [0]  # number of the first entry of each file
        for index in self._files:
            self._firsts.append(self._firsts[-1] + entries_end(index) - 1)
        self._window = np.empty(0, ENTRY)
        self._window_first = 0
        self.number = self.find(log_offset)

    @property
    def total(self) -> int:
        return self._firsts[-1]

    def find(self, log_offset: int) -> int:
        """Number of the first entry at or behind this offset, if the entries are in order."""
        for at, index in enumerate(self._files):
            if index.header.end_offset < log_offset:
                continue
            low, high = self._firsts[at], self._firsts[at + 1]
            while low < high:
                middle = (low + high) // 2
                entry = index.entry(middle - self._firsts[at] + 1)
                if entry is not None and entry.physical_offset < log_offset:
                    low = middle + 1
                else:
                    high = middle
            return low
        return self.total

    def offset_at(self, number: int) -> int | None:
        """The log offset an entry leads to; None behind the last and before the first."""
        if not 0 <= number < self.total:
            return None
        at = bisect_right(self._firsts, number) - 1
        entry = self._files[at].entry(number - self._firsts[at] + 1)
        return None if entry is None else entry.physical_offset

    def leads_before(self, log_offset: int) -> bool:
        """Whether the next entry leads to a place before this one."""
        if self.number >= self.total:
            return False
        at = bisect_right(self._firsts, self.number) - 1
        part = self._read(at, 1)
        return bool(len(part) and part["offset"][0] < log_offset)

    def matches(self, hashes: Integers, offsets: Integers, times: Integers) -> bool:
        """Whether the next entries are exactly these keys; moves behind them."""
        done = 0
        while done < len(hashes):
            at = bisect_right(self._firsts, self.number) - 1
            if at >= len(self._files):
                return False
            part = self._read(at, len(hashes) - done)
            mine = slice(done, done + len(part))
            if not (
                len(part)
                and np.array_equal(part["hash"], hashes[mine])
                and np.array_equal(part["offset"], offsets[mine])
                and self._times_right(at, part["seconds"], times[mine])
            ):
                return False
            done += len(part)
            self.number += len(part)
        return True

    def _read(self, at: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """Entries from the current number on, all of file ``at``; at most ``count``, at least one if there is one."""
        first = self.number - self._window_first
        if not 0 <= first < len(self._window) or self._window_first < self._firsts[at]:
            index = self._files[at]
            length = min(_WINDOW_ENTRIES, self._firsts[at + 1] - self.number)
            assert index.geometry is not None
            position = index.geometry.entry_position(self.number - self._firsts[at] + 1)
            data = index.read_raw(position, length * ENTRY_SIZE)
            self._window = np.frombuffer(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
            self._window_first, first = self.number, 0
        return self._window[first : first + count]

    def _times_right(self, at: int, seconds: Integers, times: Integers) -> bool:
        header = self._files[at].header
        expected = np.clip((times - header.begin_timestamp) // 1000, 0, _INT_MAX)
        if header.begin_timestamp <= 0:
            expected = np.zeros_like(expected)
        right = seconds == expected
        if self.number == self._firsts[at]:
            right[0] = header.begin_timestamp == times[0]  # the first entry may say any number of seconds
        if self.number + len(times) == self._firsts[at + 1]:
            right[-1] &= header.end_timestamp == times[-1]
        return bool(np.all(right))
