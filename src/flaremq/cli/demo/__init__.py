"""``flaremq demo``: the whole product in one go.

Owns: its server, traffic, Spark side and story.
May import: the root of ``cli`` and everything else.
Start reading: ``demo``.
"""
