"""A store directory seen from outside: read-only, in whatever state it is.

Owns: log, queues and index files as they lie, what opening would do, what is missing.
May import: ``files``, ``log``, ``queue``, ``index``, ``dispatch``.
Start reading: ``reader``, ``view``.
"""

__all__ = [
    "digest",
    "gaps",
    "indexes",
    "outlook",
    "pieces",
    "queues",
    "reader",
    "record_table",
    "unit_arrays",
    "view",
]
