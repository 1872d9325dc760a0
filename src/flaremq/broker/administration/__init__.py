"""Requests of operators: topics, groups, progress, configuration, questions passed on to clients.

Owns: a module a family of mqadmin's requests.
May import: ``access``, ``catalog``, ``filter``, ``members``, ``store_loop``, ``statistics``.
Start reading: ``topics``, ``progress``.
"""

__all__ = [
    "broker",
    "group_query",
    "groups",
    "plain_acl",
    "progress",
    "relay",
    "replication",
    "reset_offset",
    "topics",
    "users",
]
