"""Pages as values: pure functions of what is known and what was asked for.

Owns: rows, lists that are sorted and paged here, notices; one module a page.
May import: ``dashboard.data``.
Start reading: ``page``, ``overview``, ``topics``.
"""

__all__ = ["brokers", "clients", "groups", "listing", "messages", "overview", "page", "spark", "store", "topics"]
