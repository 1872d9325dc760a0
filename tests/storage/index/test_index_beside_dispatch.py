"""Keys are asked for while dispatch adds entries: what was in the index before is found at every moment."""

from __future__ import annotations

from array import array
from pathlib import Path

from flaremq.core.index import index_put
from flaremq.core.lookup import index_lookup_many
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.index.index_file import HEADER, IndexFile

SLOTS, ENTRIES, KEY = 4, 32, 6


def file_with(folder: Path, count: int) -> IndexFile:
    path = str(folder / "20240101000000000")
    file = IndexFile(LocalFileSystem(), path, slots=SLOTS, entries=ENTRIES, reserve_step=4096, create=True)
    for number in range(count):
        assert file.put(KEY, 1000 + number, 5_000 + number)
    return file


def put_in_bulk(file: IndexFile, count: int) -> None:
    """What the core does to the mapping."""
    file.reserve(ENTRIES - 1)
    keys = array("q", [field for number in range(count) for field in (KEY, 2000 + number, 6_000)])
    index_put(file.buffer, SLOTS, ENTRIES, file.reserved_entries, keys, 0)


def test_entries_from_before_are_found_while_their_chain_grows(tmp_path: Path) -> None:
    file = file_with(tmp_path, 3)
    before = bytes(file.buffer[: HEADER.size])
    put_in_bulk(file, 4)
    file.buffer[: HEADER.size] = before  # the header as it was read, the slots as they are a moment later
    assert set(file.lookup(KEY, 0, 2**62, 32)) >= {1000, 1001, 1002}


def test_many_keys_at_once_find_entries_whose_chain_grew_after_the_header_was_read(tmp_path: Path) -> None:
    file = file_with(tmp_path, 3)
    before = bytes(file.buffer[: HEADER.size])
    put_in_bulk(file, 4)
    file.buffer[: HEADER.size] = before  # the header as it was read, the slots as they are a moment later
    _, offsets = index_lookup_many(file.buffer, SLOTS, ENTRIES, array("q", [KEY]), 32)
    assert set(offsets) >= {1000, 1001, 1002}
