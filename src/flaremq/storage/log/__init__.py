"""The commit log: append, make durable, read back.

Owns: framing and places of records, group commit, and finding the next record behind damage. Knows no topic.
May import: ``files``.
Start reading: ``commit_log``, ``flush``.
"""

__all__ = ["commit_log", "flush", "plain_record", "resync"]
