"""``flaremq mqadmin``: RocketMQ's own commands.

Owns: their table of flags and their output.
May import: ``cli.admin``, ``client``.
Start reading: ``command``, ``table``.
"""
