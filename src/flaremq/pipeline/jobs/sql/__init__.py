"""sql: Spark SQL over messages, queues, groups and index.

Owns: the views, the prompt, the output.
May import: ``pipeline.model``, ``.planning``, ``.sources``, ``.jobs``.
Start reading: ``job``.
"""

from flaremq.pipeline.jobs.sql.job import SqlViews, register_views, run_sql

__all__ = ["SqlViews", "job", "output", "prompt", "register_views", "run_sql"]
