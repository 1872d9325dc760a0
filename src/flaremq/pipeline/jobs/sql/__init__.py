"""sql: SQL over messages, queues, groups and index, Spark's or, without Spark, DuckDB's.

Owns: the views, the prompt, the output.
May import: ``pipeline.model``, ``.planning``, ``.sources``, ``.jobs``.
Start reading: ``job``, ``duck``.
"""

from flaremq.pipeline.jobs.sql.job import SqlViews, register_views, run_sql
from flaremq.pipeline.jobs.sql.output import arrow_table, json_lines

__all__ = ["SqlViews", "arrow_table", "duck", "job", "json_lines", "prompt", "register_views", "run_sql"]
