"""Queues and index files made anew from the log alone.

Owns: the two halves of a rebuild and putting its result in place.
May import: ``at_rest``, ``dispatch``, ``kernels``.
Start reading: ``spill``, ``fill``, ``swap``.
"""

__all__ = ["fill", "notes", "spill", "swap"]
