"""The name server: who has which topic at which address.

Owns: the route table, key-value configuration, and the handlers of both.
May import: ``remoting`` and ``protocol``.
Start reading: ``service``, ``route_info``.
"""

__all__ = ["options", "service"]
