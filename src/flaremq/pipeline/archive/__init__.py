"""The archive: Parquet files and the manifest that says what they hold.

Owns: the format: manifest, data files, reading a run of a queue, proving rows by digests. ``jobs.archive`` writes one.
May import: ``model``, ``kernels``.
Start reading: ``manifest``, ``reading``.
"""

__all__ = ["entries", "manifest", "parquet", "reading", "root", "row_digest"]
