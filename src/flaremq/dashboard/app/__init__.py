"""The web application: routes, answers, templates, and the guard before all of them.

Owns: what HTTP looks like.
May import: all other rooms of the dashboard.
Start reading: ``routes``, ``guard``, ``pages``.
"""

__all__ = ["answers", "connection", "context", "routes"]
