"""Streams: pages that change while they are looked at.

Owns: what changed between two looks, the streams that share a look, the tail of a topic.
May import: ``dashboard.data``, ``dashboard.questions``.
Start reading: ``hub``, ``delta``.
"""

__all__ = ["hub", "tail"]
