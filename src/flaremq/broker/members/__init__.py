"""Who is online: consumers, producers, their queues and locks.

Owns: what heartbeats tell, and sharing queues out.
May import: ``catalog``, ``filter``.
Start reading: ``consumers``.
"""

__all__ = ["client_info", "cluster_queues", "consumers", "producers", "queue_locks"]
