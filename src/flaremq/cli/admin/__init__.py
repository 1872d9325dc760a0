"""``flaremq topic``, ``group``, ``message``, ``cluster``, ``config``, ``user``, ``acl``.

Owns: administration over the wire.
May import: the root of ``cli``, ``client``.
Start reading: ``administration``, ``topic``.
"""

__all__ = [
    "admin_tool",
    "administration",
    "cluster",
    "credentials",
    "group_progress",
    "names",
    "versions",
]
