"""RocketMQ's remoting protocol without input or output: bytes in, values out.

Owns: frames, commands, both header encodings, the codes, signatures and the share-out of queues; typed headers and
JSON bodies have rooms of their own.
May import: errors and the compiled core only; no sockets, no event loop.
Start reading: ``frame``, ``command``.
"""

__all__ = ["codes", "command", "frame", "header_json", "queue_allocation", "signing"]
