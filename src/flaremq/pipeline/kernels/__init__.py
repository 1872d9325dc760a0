"""Compiled kernels of the pipeline: rows of a sink, digests of rows.

Owns: Numba code that only the pipeline calls.
May import: ``storage.kernels``.
Start reading: ``sink``.
"""

__all__ = ["digest", "sink"]
