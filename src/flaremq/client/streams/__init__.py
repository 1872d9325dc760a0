"""Write streams from the client's side.

Owns: how far a stream has come, and sending the rest.
May import: the root of ``client``, ``producer``, ``consumer``.
Start reading: ``sending``.
"""

__all__ = ["ledger", "sending"]
