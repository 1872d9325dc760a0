"""Handlers of a controller's requests.

Owns: what brokers ask, and what administrators ask.
May import: the rest of ``controller`` but ``service``.
Start reading: ``broker``.
"""

__all__ = ["admin", "broker"]
