"""Everything an operator asks of a cluster.

Owns: topics, groups, offsets, messages, brokers, controllers, users and policies.
May import: the root of ``client``, ``consumer``.
Start reading: ``admin``, ``base``.
"""

__all__ = ["access", "admin", "dead_letters", "messages"]
