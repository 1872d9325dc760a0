"""Index files: key to place in the log.

Owns: one file's hash slots and entries, and the run of files.
May import: ``files``.
Start reading: ``index_file``.
"""

__all__ = ["index_file", "index_service", "lookup_files"]
