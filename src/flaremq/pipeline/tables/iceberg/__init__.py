"""Apache Iceberg, through PyIceberg.

Owns: catalogs, a table's commits, its files as Iceberg describes them, and forgetting old snapshots.
May import: ``tables.model``, ``archive``, PyIceberg.
Start reading: ``table``.
"""

__all__ = ["catalog", "table"]
