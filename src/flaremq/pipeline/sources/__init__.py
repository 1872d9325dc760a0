"""Places that hold messages: a store directory, a cluster, an archive, or several in one.

Owns: the ``Source`` protocol and everything that implements it.
May import: ``model``, ``planning``, ``archive``.
Start reading: ``source``, ``store``.
"""

__all__ = ["places", "source", "wire_loop", "wire_options"]
