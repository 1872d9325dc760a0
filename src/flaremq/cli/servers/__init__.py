"""``flaremq up``, ``namesrv``, ``broker``, ``controller``, ``proxy``.

Owns: commands that start servers.
May import: the root of ``cli``, ``broker``, ``namesrv``, ``controller``, ``proxy``.
Start reading: ``up``, ``serve``, ``child``.
"""

__all__ = ["child", "logs", "serve"]
