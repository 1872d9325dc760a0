"""How a message that is sent gets into the log: its checks, its record, its reply, and the short ways of plain sends.

Owns: admission and replies of sends; the plain and the compiled short way.
May import: ``catalog``, ``delay``, ``statistics``, ``store_loop``, the store's kernels.
Start reading: ``admission``, ``plain``, ``ingest``.
"""

__all__ = ["admission", "plain", "replies"]
