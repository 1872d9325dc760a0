"""Dispatch: the one function from log to queues and index.

Owns: which views a record has, the walk that writes them, in bulk too, and which topics were deleted.
May import: ``files``, ``log``, ``queue``, ``index``, ``kernels``.
Start reading: ``dispatcher``, ``record_views``.
"""

__all__ = ["bulk", "deleted_topics", "dispatcher", "record_views"]
