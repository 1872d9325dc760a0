"""Backends: the brokers behind the calls.

Owns: what calls need of brokers, and the requests in which they ask for it.
May import: grpc.call, grpc.messages, grpc.rules, grpc.plain, protocol, remoting, message.
Start reading: ``backend``.
"""

__all__ = ["backend", "requests"]
