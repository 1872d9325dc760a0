"""Callers that prove who they are otherwise than by a signed remoting request.

Owns: the guard's questions about them.
May import: the rooms of access before it.
Start reading: ``caller_guard``.
"""

__all__ = ["caller_guard"]
