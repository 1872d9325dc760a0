"""rebuild: queues and index from the log, in parallel.

Owns: the job and its rounds of tasks.
May import: ``storage.rebuild``, ``pipeline.jobs``.
Start reading: ``job``.
"""

from flaremq.pipeline.jobs.rebuild.job import rebuild

__all__ = ["job", "rebuild"]
