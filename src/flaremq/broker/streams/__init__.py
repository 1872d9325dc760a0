"""Write streams: sends that are stored once, however often they are repeated.

Owns: the ledger of streams and their sends.
May import: ``store_loop``, ``delay``, ``statistics``, ``ingest``.
Start reading: ``ledger``.
"""

__all__ = ["ledger", "sends"]
