"""The broker: RocketMQ's requests, answered from a store.

Owns: topics, groups, offsets, long polls, delays, transactions, POP. One event loop owns all of it. A request comes
in through ``requests`` or ``administration``, asks the tables in ``catalog`` and ``members``, and reaches the store
by ``store_loop``.
May import: ``remoting``, ``protocol``, ``storage``, ``message``; a room what its own text says.
Start reading: ``service``, ``parts``, ``registry``, ``requests.sends``.
"""

__all__ = ["ha_service", "live_config", "options", "pace", "parts", "role", "service"]
