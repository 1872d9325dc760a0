"""``format("flaremq")``: what Spark calls.

Owns: the data source, its stream, its writer, tables that prune columns, progress as a consumer group.
May import: ``model``, ``planning``, ``sources``, ``sink``, ``scan``, PySpark.
Start reading: ``datasource``.
"""

__all__ = ["datasource", "group_progress", "table"]
