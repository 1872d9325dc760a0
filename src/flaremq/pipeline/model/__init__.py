"""What the pipeline speaks of.

Owns: queues, spans, columns, and what is asked of a source: values and one protocol, nothing that reads.
May import: nothing of the other rooms.
Start reading: ``spans``, ``source``.
"""

__all__ = ["by_queue", "columns", "object_settings", "source", "spans"]
