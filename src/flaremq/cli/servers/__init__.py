"""``flaremq up``, ``namesrv``, ``broker``, ``controller``.

Owns: commands that start servers.
May import: the root of ``cli``, ``broker``, ``namesrv``, ``controller``.
Start reading: ``up``, ``serve``, ``child``.
"""

__all__ = ["child", "logs", "serve"]
