"""Messages as values: pure functions, no files, no clock.

Owns: ``Message`` (what goes in), ``MessageExt`` (what comes out), names, properties, tags, ids, and the forms in
which a message waits: delayed, transactional, part of a write stream. Its records are in ``message.record``.
May import: errors and the other modules at the root of ``flaremq``.
Start reading: ``message``, ``message_ext``, ``properties``.
"""

__all__ = [
    "batch",
    "compression",
    "delay",
    "hosts",
    "java_hash",
    "message",
    "message_ext",
    "message_id",
    "properties",
    "stored_form",
    "sys_flag",
    "tags",
    "topics",
    "transaction",
    "write_stream",
]
