"""Consume queues: queue offset to place in the log.

Owns: the three kinds of queue files, searches over their units, and the table of all queues of a store.
May import: ``files``.
Start reading: ``consume_queue``, ``table``.
"""

__all__ = ["batch_consume_queue", "consume_queue", "consume_queue_ext", "search", "table"]
