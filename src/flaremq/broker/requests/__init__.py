"""Requests of clients: sending, pulling, popping, acknowledging, offsets, membership.

Owns: a module a request family: decode, decide, answer.
May import: the rooms of state and services below it.
Start reading: ``sends``, ``pulls``.
"""

__all__ = [
    "assignment",
    "membership",
    "offsets",
    "pop",
    "pop_ack",
    "pulls",
    "queries",
    "queue_lock",
    "recall",
    "reply",
    "send_back",
    "sends",
    "transactions",
    "write_guard",
]
