"""One index file held against itself, in windows: is it what putting its entries one by one leaves behind?

Exact, and without following a single chain: if every entry links to an *earlier* entry of its own slot, no entry is
linked to twice and each slot in use has exactly one entry that links to none, then the second entry of a slot can only
link to the first, the third only to the second, and so on; the one nobody links to is the last, which the slot must
name. What is wrong with a file that is not sound is for ``verify_index`` to say.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from flaremq.storage.at_rest.indexes import StoredIndex
from flaremq.storage.index.index_file import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE

ENTRY = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
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


def entries_end(index: StoredIndex) -> int:
    """Number behind the last entry that is counted and has a place."""
    assert index.geometry is not None
    return min(index.header.index_count, index.geometry.entries)


def check_index(index: StoredIndex, mark: int = 0) -> IndexSoundness:
    """Whether header, slots, links and the order of offsets are right; also the digest of the entries [1, mark)."""
    geometry, header = index.geometry, index.header
    assert geometry is not None
    end = entries_end(index)
    sound = header.index_count <= geometry.entries
    slot_of = np.full(end, -1, np.int32)
    linked = np.zeros(end, np.bool_)
    newest = np.zeros(geometry.slots, np.int32)
    roots = 0
    reached, first_offset = -1, -1
    digest = hashlib.sha256()
    at_mark = None
    for first in range(1, end, _WINDOW_ENTRIES):
        count = min(_WINDOW_ENTRIES, end - first)
        data = index.read_raw(geometry.entry_position(first), count * ENTRY_SIZE)
        if first < mark <= first + count:
            partial = digest.copy()
            partial.update(data[: (mark - first) * ENTRY_SIZE])
            at_mark = partial.hexdigest()
        digest.update(data)
        if not sound or len(data) != count * ENTRY_SIZE:
            sound = False
            continue
        entries = np.frombuffer(data, ENTRY)
        hashes, offsets = entries["hash"].astype(np.int32), entries["offset"].astype(np.int64)
        previous = entries["previous"].astype(np.int32)
        numbers = np.arange(first, first + count, dtype=np.int32)
        if hashes.min() < 0 or previous.min() < 0 or entries["seconds"].min() < 0 or np.any(previous >= numbers):
            sound = False
            continue
        if offsets[0] < max(reached, 0) or np.any(np.diff(offsets) < 0):
            sound = False
            continue
        first_offset, reached = (int(offsets[0]) if first == 1 else first_offset), int(offsets[-1])
        slots = hashes % np.int32(geometry.slots)
        slot_of[first : first + count] = slots
        linking = previous > 0
        targets = previous[linking]
        roots += count - len(targets)
        before = int(np.count_nonzero(linked))
        linked[targets] = True
        distinct = int(np.count_nonzero(linked)) - before == len(targets)
        sound = distinct and bool(np.array_equal(slot_of[targets], slots[linking]))
        newest[slots] = numbers  # of several to one slot the last stays
    used = int(np.count_nonzero(newest))
    if sound:
        stored = np.frombuffer(index.read_raw(HEADER_SIZE, SLOT_SIZE * geometry.slots), ">i4")
        sound = roots == used == header.slot_count and np.array_equal(stored, newest)
        sound &= end <= 1 or (header.begin_offset, header.end_offset) == (first_offset, reached)
    return IndexSoundness(index.name, bool(sound), header.index_count, header.end_offset, digest.hexdigest(), at_mark)
