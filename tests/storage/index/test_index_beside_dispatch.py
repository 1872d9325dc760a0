"""Keys are asked for while dispatch adds entries: what was in the index before is found at every moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.index.index_file import HEADER, IndexFile
from flaremq.storage.kernels.index import index_put
from flaremq.storage.kernels.lookup import index_lookup_many
from flaremq.storage.kernels.memory import as_array

SLOTS, ENTRIES, KEY = 4, 32, 6


def file_with(folder: Path, count: int) -> IndexFile:
    path = str(folder / "20240101000000000")
    file = IndexFile(LocalFileSystem(), path, slots=SLOTS, entries=ENTRIES, reserve_step=4096, create=True)
    for number in range(count):
        assert file.put(KEY, 1000 + number, 5_000 + number)
    return file


def put_in_bulk(file: IndexFile, count: int) -> None:
    """What the kernel does to the mapping, before dispatch has taken over the new header."""
    file.reserve(ENTRIES - 1)
    hashes, offsets = np.full(count, KEY, np.int64), np.arange(2000, 2000 + count)
    times = np.full(count, 6_000, np.int64)
    index_put(as_array(file.buffer), SLOTS, ENTRIES, file.reserved_entries, hashes, offsets, times, 0)


def test_entries_from_before_are_found_while_the_kernel_adds_to_their_chain(tmp_path: Path) -> None:
    file = file_with(tmp_path, 3)
    put_in_bulk(file, 4)
    assert file.count == 4  # what this thread knows is old
    assert set(file.lookup(KEY, 0, 2**62, 32)) >= {1000, 1001, 1002}


def test_many_keys_at_once_find_entries_whose_chain_grew_after_the_header_was_read(tmp_path: Path) -> None:
    file = file_with(tmp_path, 3)
    before = bytes(file.buffer[: HEADER.size])
    put_in_bulk(file, 4)
    file.buffer[: HEADER.size] = before  # the header as it was read, the slots as they are a moment later
    hashes = np.array([KEY], np.int64)
    _, offsets = index_lookup_many(as_array(file.buffer), SLOTS, ENTRIES, hashes, 0, 2**62, 32)
    assert set(offsets.tolist()) >= {1000, 1001, 1002}
