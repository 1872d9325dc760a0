"""JSON bodies of the protocol: beans that know their Java names.

Owns: a bean for each body, by subject, and the machinery that reads and writes them.
May import: errors and ``java_json``.
Start reading: ``bean``, then ``route``.
"""

__all__ = [
    "bean",
    "bean_rows",
    "client",
    "controller",
    "group",
    "pop",
    "queue",
    "register",
    "replication",
    "route",
    "running",
    "stats",
    "topic",
]
