"""The command line.

Owns: ``flaremq`` and its commands, a room a group; help imports nothing heavy.
May import: everything else.
Start reading: ``main``, ``groups``, ``output``, ``failure``.
"""

__all__ = ["confirmation", "failure", "groups", "main", "output", "parameters", "progress"]
