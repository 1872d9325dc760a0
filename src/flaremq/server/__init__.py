"""What servers have in common: how their options are put together, and how those of a running one are changed.

Owns: options of a server and its parts as one object, options that an administrator reads and changes over the wire,
the guard of a small server.
May import: access, metrics, remoting, protocol.
Start reading: ``options``, ``live_options``.
"""

__all__ = ["guarding", "live_options", "option_requests", "options"]
