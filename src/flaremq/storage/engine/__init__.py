"""Everything behind an open store: what it consists of, what runs in it, and in which order it starts and stops.

Owns: recovery, flushing, dispatch as a service, checkpoints, retention, deleting topics, the driver of a broker, and
the answers to an operator's questions.
May import: every room down to ``files``.
Start reading: ``store_engine``, ``parts``, ``recovery``.
"""

__all__ = ["driver", "inspection", "leases", "recovery", "store_engine"]
