"""archive: the log into Parquet by topic and day, as far as it is not there yet.

Owns: the job, one increment of it, its task and the rows a task holds; merging small files (``compact``).
May import: ``pipeline.model``, ``.planning``, ``.archive``, ``.sources``, ``.jobs``.
Start reading: ``job``, ``increment``, ``task``.
"""

from flaremq.pipeline.jobs.archive.job import archive

__all__ = ["archive", "buffer", "compact"]
