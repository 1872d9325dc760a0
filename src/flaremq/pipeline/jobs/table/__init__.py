"""table: topics as tables of the lakehouse, and what keeps such tables in order.

Owns: the job that brings a table up to its topic, its task, and compacting, expiring, telling how far a table is.
May import: ``pipeline.model``, ``.planning``, ``.tables``, ``.sources``, ``.jobs``.
Start reading: ``job``, ``increment``, ``task``.
"""

from flaremq.pipeline.jobs.table.job import TableSettings, table

__all__ = ["TableSettings", "table"]
