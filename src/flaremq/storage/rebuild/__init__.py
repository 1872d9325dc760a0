"""Queues and index files made anew from the log alone.

Owns: the two halves of a rebuild, from pieces of the log to files of their units and keys (``spill``), from those to
queues and index files (``fill``); putting them in place (``swap``) and telling the store's own files (``notes``).
May import: ``files``, ``log``, ``queue``, ``index``, ``dispatch``, ``at_rest``.
Start reading: ``spill``, ``fill``, ``swap``.
"""

__all__ = ["fill", "notes", "spill", "swap"]
