"""Custom headers: the ext fields of a request or reply as typed values.

Owns: a dataclass for each header, by family, and the table of which code has which.
May import: ``protocol`` and ``protocol.bodies``.
Start reading: ``custom_header``, then ``table``.
"""

__all__ = ["admin", "consume", "namesrv", "pop", "send"]
