"""``flaremq demo``: the whole product in one go.

Owns: its traffic, its Spark side and the counts that must agree.
May import: the root of ``cli`` and everything else.
Start reading: ``demo``.
"""
