"""The gRPC door of a broker: its clients' calls become requests that the broker answers in its own process.

Owns: the backend of calls in a broker, and connections that no socket has.
May import: the rooms before it, flaremq.grpc.
Start reading: ``door``, then ``local_backend``.
"""

__all__ = ["door"]
