"""Connections: asyncio around the protocol.

Owns: server and client sockets, back-pressure, limits, TLS, and the table from request code to handler.
May import: ``protocol``.
Start reading: ``connection``, ``handlers``, ``server``.
"""

__all__ = [
    "address", "client", "connection", "descriptors", "direct_write", "event_loop", "handlers", "options", "server",
    "tls", "tls_acceptor",
]  # fmt: skip
