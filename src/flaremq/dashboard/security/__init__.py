"""Who may look and who may change.

Owns: the token, sessions and their CSRF tokens, hosts and origins, headers of every answer, audit lines.
May import: ``dashboard.data``, ``access.audit``.
Start reading: ``sessions``, ``hosts``.
"""

__all__ = ["audit_lines", "headers", "hosts", "sessions", "token"]
