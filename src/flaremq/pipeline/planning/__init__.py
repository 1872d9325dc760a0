"""From queue ranges to pieces of work: pure arithmetic over an open source.

Owns: offsets, push-down, cutting, partitions.
May import: ``model``, ``options``.
Start reading: ``planner``, ``cutting``.
"""

__all__ = ["by_topic", "offsets", "partitions", "planner", "pushdown"]
