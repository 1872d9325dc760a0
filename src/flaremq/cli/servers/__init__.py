"""``flaremq up``, ``namesrv``, ``broker``.

Owns: commands that start servers.
May import: the root of ``cli``, ``broker``, ``namesrv``.
Start reading: ``up``, ``serve``, ``child``.
"""

__all__ = ["child"]
