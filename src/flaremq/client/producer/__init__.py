"""Sending messages.

Owns: the producer, its accumulators and retries, transactions, request-reply, and what a send answers.
May import: the root of ``client``.
Start reading: ``producer``, ``sender``.
"""

__all__ = ["producer", "send_result", "transactions"]
