"""report: what is in a store, a cluster or an archive, as a page.

Owns: counting in tasks, sections, charts, the page.
May import: ``pipeline.model``, ``.planning``, ``.sources``, ``.jobs``.
Start reading: ``job``, ``partial``, ``sections``, ``html``.
"""

from flaremq.pipeline.jobs.report.job import report

__all__ = ["job", "report"]
