"""Plain sends of one read, from the socket to the log and back, by kernels.

Owns: the fast path of sends and its compiled code.
May import: ``store_loop``, ``statistics``, the store's kernels.
Start reading: ``ingest``.
"""

__all__ = ["ingest"]
