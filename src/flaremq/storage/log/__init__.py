"""The commit log: append, make durable, read back.

Owns: framing and places of records, group commit, and walking them over damage to the end. Knows no topic.
May import: ``files``, ``kernels``.
Start reading: ``commit_log``, ``flush``, ``walk``.
"""

__all__ = ["commit_log", "common_record", "flush", "resync", "walk"]
