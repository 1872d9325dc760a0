"""``flaremq bench``: measure this machine.

Owns: store, wire and Spark measurements.
May import: the root of ``cli``, ``storage``, ``client``, ``pipeline``.
Start reading: ``commands``.
"""
