"""``flaremq store``: a store directory, offline.

Owns: info, dump, verify, query; recover and rescue.
May import: the root of ``cli``, ``storage``.
Start reading: ``commands``.
"""
