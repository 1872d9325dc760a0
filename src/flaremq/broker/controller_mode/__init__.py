"""A broker whose role a controller chooses.

Owns: the talk with controllers, the files that remember id and epochs, and what a change of role does to a broker that
runs. Which role it is, and when, is decided by ``flaremq.replication.membership``.
May import: ``ha_service``, ``parts``, ``role``, ``options``; ``replication``, ``remoting``, ``storage``.
Start reading: ``controller_mode``, ``role_change``, ``controller_client``.
"""

__all__ = ["controller_mode", "epoch_store", "handlers", "identity_files"]
