"""Reading a cluster without consuming: for the pipeline.

Owns: what a cluster holds, spans of queues, times, keys, progress of jobs.
May import: the root of ``client``, ``admin``.
Start reading: ``cluster_view``, ``span_reading``.
"""

__all__ = ["cluster_view", "group_commits", "key_query", "queue_holes", "queue_pulls", "span_reading"]
