"""What the pipeline speaks of.

Owns: queues, spans and columns: values only.
May import: nothing of the other rooms.
Start reading: ``spans``.
"""

__all__ = ["columns", "spans"]
