"""What tables of the lakehouse have in common.

Owns: addresses, offsets a table covers, columns and partitions, files, and what a table can do.
May import: ``pipeline.model``, ``archive``.
Start reading: ``lake_table``, ``coverage``.
"""

__all__ = ["coverage", "extra", "lake_table", "partitions", "staged", "target"]
