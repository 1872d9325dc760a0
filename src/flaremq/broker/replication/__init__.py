"""Replication between brokers: the HA port of a master, the HA client of a slave.

Owns: sockets, threads and admission of the HA stream; what its bytes mean is ``flaremq.replication``'s.
May import: ``store_loop``, ``options``; ``replication``, ``remoting``, ``storage``.
Start reading: ``ha_server``, ``ha_connection`` (master's end), ``ha_client``, ``master_link`` (slave's end), ``door``.
"""

__all__ = ["door", "ha_client", "ha_server"]
