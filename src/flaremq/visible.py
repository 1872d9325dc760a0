"""Text of strangers as people may see it: names, tags, bodies and remarks come from whoever sent them.

A control character moves a terminal's cursor or starts a log line of its own; a direction mark turns a line around.
What has no glyph is spelled as an escape, so that no text can look like another or command a terminal.
"""

from __future__ import annotations

import unicodedata


def visible(text: str, *, keep: str = "") -> str:
    """The text with every character that has no glyph of its own, but for those in ``keep``, spelled as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or _has_glyph(char) else _escape(char) for char in text)


def _has_glyph(char: str) -> bool:
    return unicodedata.category(char)[0] != "C" and char not in "\u2028\u2029"


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
