"""What the pages say, in every language: one table, a key a line.

Owns: the table and looking a text up.
May import: ``flaremq.look``.
Start reading: ``lookup``, ``frame``.
"""

from flaremq.dashboard.texts.lookup import LANGUAGES, Texts, lookup

__all__ = ["LANGUAGES", "Texts", "lookup"]
