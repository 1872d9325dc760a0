"""What is asked of the cluster when somebody opens a page: messages, traces, what waits, running clients, users.

Owns: reading with bounds, so that no page takes a broker's time without end.
May import: ``dashboard.data``, ``dashboard.views``, ``client``.
Start reading: ``scan``, ``messages``.
"""

__all__ = [
    "access",
    "archives",
    "dead_letters",
    "finding",
    "lookup",
    "message",
    "messages",
    "running",
    "tables",
    "trace",
    "waiting",
]
