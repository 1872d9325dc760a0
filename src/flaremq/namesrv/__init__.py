"""The name server: who has which topic at which address.

Owns: the route table and the key-value configuration; ``requests`` holds the handlers of both.
May import: ``remoting`` and ``protocol``.
Start reading: ``service``, ``route_info``.
"""

__all__ = ["broker_table", "kv_config", "options", "route_info", "service"]
