"""Compiled kernels: everything that touches each record of a log, in bulk and without the GIL.

Owns: the Numba code of the store, a module a subject: the fast twin of ``flaremq.message`` and of the plain code in the
other rooms. No state, no files: arrays in, arrays and codes out. Everybody imports kernels inside functions.
May import: nothing of the other rooms.
Start reading: ``compile``, ``table``, ``record``.

Arrays must be C-contiguous; ``log`` and other inputs may be read-only. An array over a mapped file keeps the
mapping alive: drop it before the file is closed.
"""

__all__: list[str] = []
