"""Delta Lake, through delta-rs.

Owns: a table's commits and its files as Delta's log describes them.
May import: ``tables.model``, ``archive``, the package ``deltalake``.
Start reading: ``table``.
"""

__all__ = ["table"]
