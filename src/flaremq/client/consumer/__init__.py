"""Receiving messages.

Owns: the consumer, its queues, pulls, delivery, offsets, locks and rebalancing.
May import: the root of ``client``.
Start reading: ``consumer``, ``consumption``, ``process_queue``.
"""

__all__ = ["consumer", "delivery", "pulling", "queue_offset", "received", "send_back", "subscription"]
