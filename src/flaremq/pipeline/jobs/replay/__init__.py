"""replay: messages sent once more, to the same topic or another one.

Owns: the job, its task and the rows it writes.
May import: ``pipeline.model``, ``.planning``, ``.sources``, ``.sink``, ``.jobs``.
Start reading: ``job``.
"""

from flaremq.pipeline.jobs.replay.job import replay

__all__ = ["job", "replay"]
