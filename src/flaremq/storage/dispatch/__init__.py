"""Dispatch: the one function from log to queues and index.

Owns: which views a record has, the walk that writes them, and which topics were deleted.
May import: ``files``, ``log``, ``queue``, ``index``.
Start reading: ``dispatcher``, ``view_writer``, ``record_views``.
"""

__all__ = ["deleted_topics", "dispatcher", "next_offsets", "record_views", "view_writer"]
