"""Places that hold messages: a store directory, a cluster, an archive, or an archive and one of the others as one.

Owns: every ``model.source.Source``, and how one is opened.
May import: ``model``, ``options``, ``planning``, ``archive``.
Start reading: ``open``, ``store``.
"""

__all__ = ["open", "worker"]
