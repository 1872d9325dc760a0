"""verify: a store against itself, its certificate, an archive, tables, a replica.

Owns: the job (``check`` runs ``tasks`` in pieces), certificates, and what a store is compared with: an earlier
certificate (``against``), an ``archive``, ``tables`` of the lakehouse, a ``replica``; each tells its ``difference``.
May import: ``storage.verify``, ``pipeline.model``, ``.archive``, ``.tables``, ``.sources``, ``.jobs``.
Start reading: ``job``.
"""

from flaremq.pipeline.jobs.verify.job import verify

__all__ = ["job", "tables", "verify"]
