"""The asyncio client: producers, consumers, administration, readers.

Owns: connections to a cluster, routes, heartbeats; each use has a room.
May import: ``remoting``, ``protocol``, ``message``.
Start reading: ``instance``, ``producer.producer``, ``consumer.consumer``.
"""

__all__ = ["arguments", "blocking", "credentials", "errors", "instance", "options", "routes", "unique_keys"]
