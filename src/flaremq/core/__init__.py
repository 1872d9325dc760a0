"""The compiled core: what touches each byte of a message, as one source that runs compiled and interpreted.

Owns: loads and stores on buffers, checksums, texts and hashes, the record (is it one, where are its parts),
copies of records and their parts, and what queues and index hold of them.
May import: nothing of the other packages.
Start reading: ``memory``, ``frame``, ``record``; how it is built and tested is in ``docs/compiled-core.md``.

A module ``x.py`` is ordinary Python; ``x.pxd`` beside it gives it C types. No state, no files: buffers in, numbers out.
A typical walk over one log file::

    table = RecordTable(4096)
    rows, at, stop = walk(log, start, end, base, CHECK_BODY_CRC, table.cells)
    units, runs = queue_runs(log, table.cells, 0, rows, delay_ms)
    keys = index_keys(log, table.cells, 0, rows, 0, False)
    position, why = index_put(index, slots, entries, reserved, keys, 0)
"""

__all__ = [
    "arrays",
    "column_layout",
    "columns",
    "digest",
    "frame",
    "gather",
    "index",
    "json_fields",
    "json_layout",
    "lookup",
    "memory",
    "mutex",
    "queue",
    "record",
    "scan",
    "stream_items",
    "table",
    "text",
    "wall_clock",
    "write",
]
