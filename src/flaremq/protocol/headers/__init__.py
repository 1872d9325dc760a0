"""Custom headers: the ext fields of a request or reply as typed values.

Owns: a dataclass for each header, by family.
May import: ``protocol`` and ``protocol.bodies``.
Start reading: ``custom_header``.
"""

__all__ = ["admin", "consume", "controller", "custom_header", "namesrv", "pop", "send"]
