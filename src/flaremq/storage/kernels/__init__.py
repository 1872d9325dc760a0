"""Compiled kernels: everything that touches each record of a log, in bulk and without the GIL.

Owns: the Numba code of the store, a module a subject: the fast twin of ``flaremq.message`` and of the plain code in the
other rooms. No state, no files: arrays in, arrays and codes out. Everybody imports kernels inside functions.
May import: nothing of the other rooms.
Start reading: ``compile``, ``table``, ``record``.

A typical dispatch of one log file::

    log = as_array(mapped_file.buffer)
    rows, at, stop = walk(log, start, end, base, 0, table.columns)
    order, starts = group_queues(log, table.columns, rows)
    fill_units(table.columns, order[starts[g]:starts[g + 1]], delay_ms, units)      # for each group g
    hashes, offsets, times = index_keys(log, table.columns, 0, rows, skip_below, False)
    position, code = index_put(index, slots, entries, reserved, hashes, offsets, times, 0)

Arrays must be C-contiguous; ``log`` and other inputs may be read-only. An array over a mapped file keeps the
mapping alive: drop it before the file is closed.
"""

__all__ = [
    "compile",
    "index",
    "loaded",
    "lookup",
    "memory",
    "preload",
    "pull",
    "queue",
    "record",
    "table",
    "text",
]
