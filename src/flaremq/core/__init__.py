"""The compiled core: what touches each byte of a message, as one source that runs compiled and interpreted.

Owns: loads and stores on buffers, checksums, texts and hashes, the record (is it one, where are its parts), and
copies of records and their parts.
May import: nothing of the other packages.
Start reading: ``memory``, ``frame``, ``record``; how it is built and tested is in ``docs/compiled-core.md``.

A module ``x.py`` is ordinary Python; ``x.pxd`` beside it gives it C types. No state, no files: buffers in, numbers out.
A typical walk over one log file::

    table = RecordTable(4096)
    rows, at, stop = walk(log, start, end, base, CHECK_BODY_CRC, table.cells)
"""

__all__ = [
    "arrays",
    "crc",
    "digest",
    "gather",
    "memory",
    "record",
    "scan",
    "stream_items",
    "table",
    "wall_clock",
    "write",
]
