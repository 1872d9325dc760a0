"""``flaremq dashboard``.

Owns: the command that starts a dashboard.
May import: the root of ``cli``, ``servers``, ``admin``, ``flaremq.dashboard``.
Start reading: ``command``.
"""

__all__: list[str] = []
