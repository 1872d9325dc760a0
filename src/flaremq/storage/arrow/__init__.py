"""Messages as Arrow batches, no Python object a message.

Owns: scans of a live store and of a directory: units, windows of records, columns, filters, bodies.
May import: ``files``, ``at_rest``, ``get``, ``log``, ``queue``.
Start reading: ``windows``, ``columns``.
"""

__all__ = ["batches", "bodies", "filters", "keys", "live", "records", "unit_only", "units", "windows"]
