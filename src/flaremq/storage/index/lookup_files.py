"""One hash looked up in a run of index files, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.storage.index.index_file import IndexFile

if not cython.compiled:
    from flaremq.core.lookup import index_lookup
    from flaremq.core.memory import load_i64, view_of

_NO_TIME = -(2**62)


def lookup_files(files: tuple[IndexFile, ...], hashed: int, begin_ms: int, end_ms: int, max_count: int) -> list[int]:
    """Candidate physical offsets, newest first, hash collisions included: the caller compares the text."""
    widened = max(begin_ms, _NO_TIME) - 999  # entry times are rounded down to a second
    found: list[int] = []
    for file in reversed(files):
        buffer = file.buffer
        header = view_of(buffer)
        begin, end = load_i64(header, 0), load_i64(header, 8)
        # Of a file that ends before it begins (a clock set back, a wrong bit) nobody knows how far it reaches.
        if begin <= end_ms and (end >= widened or end < begin):
            found += index_lookup(buffer, file.slots, file.entries, hashed, widened, end_ms, max_count - len(found))
        if len(found) >= max_count or begin < widened:
            break
    return found
