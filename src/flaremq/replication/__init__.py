"""Replication without I/O: bytes, offsets and times in; bytes and steps out.

Owns: the HA stream of both dialects (classic and controller mode) from either end, epochs and where histories part,
the check of records before they enter a replica's log, and which copies count.
May import: ``message``, ``core`` and the base. No files, sockets, threads or clocks: ``now`` is monotonic seconds.
Start reading: ``frames`` for the bytes, then ``source`` (master's end), ``follower`` (slave's end), ``replicas``.
"""

__all__ = ["epochs", "follower", "replicas", "source", "sync_rules", "sync_state"]
