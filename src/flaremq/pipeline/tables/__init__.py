"""Tables of the lakehouse: a topic as Apache Iceberg or Delta, for engines that know nothing of FlareMQ.

Owns: opening a table by its address, writing its files and reading one of them, the marks of running writers. ``model``
has the values and what a table must be able to do, ``iceberg`` and ``delta`` do it. ``jobs.table`` moves messages into
one.
May import: ``model``, ``archive`` and the rooms below this one; the packages of the extra ``lakehouse``, inside
functions.
Start reading: ``model.lake_table``, ``open``, ``files``.
"""

__all__ = ["files", "leases", "open", "reading"]
