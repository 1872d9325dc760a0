"""The commit log: append, make durable, read back.

Owns: framing and places of records, group commit, and walking them over damage to the end. Knows no topic.
May import: ``files``.
Start reading: ``commit_log``, ``append``, ``flush``, ``walk``.
"""

__all__ = ["append", "commit_log", "common_record", "flush", "replica_append", "resync", "walk"]
