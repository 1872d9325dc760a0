"""The archive: Parquet files and the manifest that says what they hold.

Owns: writing an increment, reading a run, proving rows by digests.
May import: ``model``, ``planning``, ``kernels``.
Start reading: ``manifest``, ``increment``.
"""

__all__ = ["entries", "increment", "manifest", "reading", "root", "row_digest", "task"]
