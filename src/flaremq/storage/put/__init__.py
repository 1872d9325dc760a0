"""Putting: what may be stored, and how it gets into the log.

Owns: the rules behind every way in, single puts, batches and columns, and what a put answers.
May import: ``log``, ``runtime``, ``kernels``.
Start reading: ``rules``, ``writer``.
"""

__all__ = ["fields", "put_result", "writer"]
