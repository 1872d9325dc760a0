"""table: topics as tables of the lakehouse, and what keeps such tables in order.

Owns: the job that brings a table up to its topic (``increment``, ``task``), and its upkeep: ``compact`` (``merge``),
``expire`` (``leftovers``), ``status``. A table is proved by ``jobs.verify``.
May import: ``pipeline.model``, ``.planning``, ``.tables``, ``.sources``, ``.jobs``.
Start reading: ``job``, ``increment``, ``task``.
"""

from flaremq.pipeline.jobs.table.job import TableSettings, table

__all__ = ["TableSettings", "compact", "expire", "job", "status", "table"]
