"""Calls: what is done when a client asks for it, a module a family of calls.

Owns: the clients that are there and their settings, the handles that are renewed, the transactions that are open.
May import: grpc.call, grpc.messages, grpc.rules, grpc.plain, grpc.backends, protocol, message, errors.
Start reading: ``service``, then ``sending`` and ``receiving``.
"""

__all__ = ["service"]
