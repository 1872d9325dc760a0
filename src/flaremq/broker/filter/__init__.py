"""Which messages a subscription wants: tags and SQL92 over properties.

Owns: parsing, evaluating, and where evaluation runs.
May import: ``message``.
Start reading: ``subscription``, ``message_filter``.
"""

__all__ = ["lane", "message_filter", "subscription", "syntax_error", "work"]
