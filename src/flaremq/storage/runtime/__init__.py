"""What the parts of an open store share while it runs.

Owns: health flags, counters, service threads.
May import: nothing of the other rooms.
Start reading: ``health``.
"""

__all__ = ["health", "services", "statistics"]
