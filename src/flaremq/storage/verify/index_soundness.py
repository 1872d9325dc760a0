"""One index file held against itself, in windows: is it what putting its entries one by one leaves behind?

Exact, and without following a single chain: if every entry links to an *earlier* entry of its own slot, no entry is
linked to twice and each slot in use has exactly one entry that links to none, then the second entry of a slot can only
link to the first, the third only to the second, and so on; the one nobody links to is the last, which the slot must
name. What is wrong with a file that is not sound is for the plain check (index.py) to say.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from flaremq.core.arrays import Integers
from flaremq.storage.at_rest.indexes import StoredIndex
from flaremq.storage.index.index_file import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from flaremq.storage.verify.index_entries import ENTRY, entries_end

_WINDOW_ENTRIES = 1 << 18


@dataclass(frozen=True, slots=True)
class IndexSoundness:
    """``digest`` covers the entries [1, count), which never change once written; slots and header follow from them."""

    name: str
    is_sound: bool
    count: int  # index_count of the header: one more than there are entries
    end_offset: int
    digest: str
    digest_at_mark: str | None = None


def check_index(index: StoredIndex, mark: int = 0, *, digests: bool = True) -> IndexSoundness:
    """Whether header, slots, links and the order of offsets are right; also the digest of the entries [1, mark).

    Without ``digests`` the digests are empty.
    """
    geometry, header = index.geometry, index.header
    assert geometry is not None
    end = entries_end(index)
    links = _Links(geometry.slots, end)
    sound = header.index_count <= geometry.entries
    digest = hashlib.sha256()
    at_mark = None
    for first in range(1, end, _WINDOW_ENTRIES):
        count = min(_WINDOW_ENTRIES, end - first)
        data = index.read_raw(geometry.entry_position(first), count * ENTRY_SIZE)
        if digests:
            if first < mark <= first + count:
                partial = digest.copy()
                partial.update(data[: (mark - first) * ENTRY_SIZE])
                at_mark = partial.hexdigest()
            digest.update(data)
        sound = sound and len(data) == count * ENTRY_SIZE and links.follow(first, np.frombuffer(data, ENTRY))
        if not (sound or digests):
            break
    if sound:
        slots = np.frombuffer(index.read_raw(HEADER_SIZE, SLOT_SIZE * geometry.slots), ">i4")
        sound = links.lead_from(slots, header.slot_count)
        sound &= end <= 1 or (header.begin_offset, header.end_offset) == (links.first_offset, links.last_offset)
    text = digest.hexdigest() if digests else ""
    return IndexSoundness(index.name, sound, header.index_count, header.end_offset, text, at_mark)


class _Links:
    """The chains of one file as far as its entries were seen."""

    def __init__(self, slots: int, end: int) -> None:
        self._slots = slots
        self._slot_of = np.full(end, -1, np.int32)  # of each entry
        self._linked = np.zeros(end, np.bool_)  # whether a later entry links to it
        self._newest = np.zeros(slots, np.int32)  # entry of each slot
        self._roots = 0  # entries that link to none
        self.first_offset = self.last_offset = -1

    def follow(self, first: int, entries: np.ndarray[tuple[int], np.dtype[np.void]]) -> bool:
        """Whether these entries, the next ones, are right."""
        count = len(entries)
        hashes, offsets = entries["hash"].astype(np.int32), entries["offset"].astype(np.int64)
        previous = entries["previous"].astype(np.int32)
        numbers = np.arange(first, first + count, dtype=np.int32)
        if hashes.min() < 0 or previous.min() < 0 or entries["seconds"].min() < 0 or np.any(previous >= numbers):
            return False
        if offsets[0] < max(self.last_offset, 0) or np.any(offsets[1:] < offsets[:-1]):
            return False
        if first == 1:
            self.first_offset = int(offsets[0])
        self.last_offset = int(offsets[-1])
        slots = hashes % np.int32(self._slots)
        self._slot_of[first : first + count] = slots
        linking = previous > 0
        targets = previous[linking]
        self._roots += count - len(targets)
        before = int(np.count_nonzero(self._linked))
        self._linked[targets] = True
        self._newest[slots] = numbers  # of several to one slot the last stays
        once = int(np.count_nonzero(self._linked)) - before == len(targets)
        return once and np.array_equal(self._slot_of[targets], slots[linking])

    def lead_from(self, slots: Integers, used: int) -> bool:
        """Whether these slots, ``used`` of them in use, each name the newest of their entries."""
        return self._roots == np.count_nonzero(self._newest) == used and np.array_equal(slots, self._newest)
