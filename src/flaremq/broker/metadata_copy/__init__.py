"""What a slave copies from its master besides the log: topics, groups, consumer offsets, progress of deliveries.

Owns: asking for it, and taking it over in steps that leave the tables whole.
May import: ``catalog``, ``delay``, ``parts``.
Start reading: ``metadata_copy``.
"""

__all__ = ["metadata_copy"]
