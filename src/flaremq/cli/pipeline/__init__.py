"""``flaremq pipeline``: the Spark jobs.

Owns: a command a job.
May import: the root of ``cli``, ``pipeline``.
Start reading: ``commands``, ``jobs``.
"""

__all__ = ["job"]
