"""What a name server answers, a module a family of requests.

Owns: the handlers of brokers' registrations, of routes, and of configuration.
May import: the root of ``namesrv``.
Start reading: ``broker``.
"""

__all__ = ["broker", "config", "route"]
