"""sql: Spark SQL over messages, queues, groups and index.

Owns: the views, the prompt, the output.
May import: ``pipeline.jobs``, ``pipeline.sources``.
Start reading: ``job``.
"""

__all__ = ["job", "output", "prompt"]
