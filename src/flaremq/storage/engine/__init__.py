"""Keeping an open store going: recovery, retention, the driver of a broker, questions of operators.

Owns: what happens to a store besides put and get.
May import: every room down to ``files``.
Start reading: ``recovery``, ``retention``, ``driver``.
"""

__all__ = ["cleaning", "driver", "inspection", "leases", "recovery", "retention"]
