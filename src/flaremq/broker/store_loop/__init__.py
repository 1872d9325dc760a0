"""The store as an event loop sees it: what runs where.

Owns: waiting for durability, dispatch, worker threads, and the seam that services use.
May import: ``storage``, ``filter``.
Start reading: ``gate``, ``access``.
"""

__all__ = ["access", "gate", "put_status"]
