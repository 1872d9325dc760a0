"""Spark jobs over a store: each a function that takes a session and returns a result with ``to_json``.

Owns: sessions, running tasks, packing for a cluster, and a room a job.
May import: the other rooms of ``pipeline``, PySpark.
Start reading: ``session``, ``tasks``, ``archive.job``.
"""

__all__ = [
    "body_schema",
    "connect",
    "follow",
    "group_lag",
    "object_access",
    "package",
    "runner",
    "session",
    "store_place",
    "tasks",
]
