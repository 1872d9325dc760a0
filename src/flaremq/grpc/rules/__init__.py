"""Rules of the calls as pure functions: what is legal, and how one form of a thing becomes another.

Owns: status codes, names, limits, messages on their way in and out, receipt handles, settings, the choice of queues.
May import: grpc.messages, protocol, message, errors.
Start reading: ``outgoing`` and ``delivered``, then ``receipts``.
"""

__all__ = [
    "delivered",
    "endpoints",
    "languages",
    "limits",
    "names",
    "outgoing",
    "pop_reply",
    "queue_choice",
    "recall_handles",
    "receipts",
    "settings",
    "status",
    "times",
]
