"""The data pipeline: the store as a table, a stream and a set of jobs.

Only ``datasource``, ``stream_*``, ``writer*`` and ``jobs`` import PySpark, and they alone need it. Planning and reading
do not: ``flaremq.scan`` gives the same rows without Spark.
"""
