"""The store as an event loop sees it: what runs where.

Owns: waiting for durability, when to dispatch, worker threads, and the seam that services use.
May import: ``storage``, ``filter``.
Start reading: ``store_loop``, ``durability``, ``access``.
"""

__all__ = ["access", "dispatching", "durability", "put_status", "store_loop"]
