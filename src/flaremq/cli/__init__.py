"""The command line.

Owns: ``flaremq`` and its commands, a room a group; help imports nothing heavy.
May import: everything else.
Start reading: ``main``, ``output``, ``failure``.
"""

__all__ = ["completion", "failure", "main", "output", "parameters", "progress", "times"]
