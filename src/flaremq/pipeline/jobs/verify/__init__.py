"""verify: a store against itself, its certificate, an archive, a replica.

Owns: the job, its tasks, certificates and differences.
May import: ``storage.verify``, ``pipeline.archive``, ``pipeline.jobs``.
Start reading: ``job``.
"""

from flaremq.pipeline.jobs.verify.job import verify

__all__ = ["job", "verify"]
