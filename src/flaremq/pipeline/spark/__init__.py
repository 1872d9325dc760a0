"""``format("flaremq")``: what Spark calls.

Owns: the data source, its stream, its writer, progress as a consumer group.
May import: ``model``, ``planning``, ``sources``, ``sink``, PySpark.
Start reading: ``datasource``.
"""

__all__ = ["datasource", "group_progress"]
