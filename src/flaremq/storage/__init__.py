"""The store: RocketMQ's files, written, read, checked and repaired. Synchronous; knows no event loop.

Owns: everything below a store's directory. A message walks through the rooms in this order: ``put`` (rules, append)
-> ``log`` (commit log, flush) -> ``dispatch`` -> ``queue`` and ``index`` -> ``get``. ``engine`` keeps that going,
``at_rest``, ``arrow``, ``verify``, ``rebuild`` and ``rescue`` look at a directory from outside.
May import: ``message``; a room what its own text says.
Start reading: ``message_store``, then ``put.writer``, ``log.commit_log``, ``dispatch.dispatcher``.
"""

__all__ = ["message_store", "option_names", "options", "status"]
