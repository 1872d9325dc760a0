"""Small files of state beside the log that survive crashes and bad disks.

Owns: ``config/*.json`` with its backups, our own checked JSON, and who served the store last.
May import: ``files``.
Start reading: ``config_file``.
"""

__all__ = ["broker_note", "checked_json", "config_file", "group_offsets"]
