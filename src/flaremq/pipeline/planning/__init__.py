"""From queue ranges to pieces of work: pure arithmetic.

Owns: offsets, push-down, cutting, partitions.
May import: ``model``.
Start reading: ``planner``, ``cutting``.
"""

__all__ = ["offsets", "partitions", "planner", "pushdown"]
