"""The data pipeline: the store as a table, a stream and a set of jobs.

Owns: reading and writing through Spark and without it. ``planning`` cuts, ``sources`` read, ``sink`` writes; only
``spark`` and ``jobs`` import PySpark, so ``flaremq.scan`` needs none.
May import: ``storage``, ``client``, ``message``; a room what its own text says.
Start reading: ``options``, ``model.source``, ``planning.planner``, ``spark.datasource``.
"""

__all__ = ["options", "scan"]
