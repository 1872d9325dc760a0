"""Whole numbers in texts that others wrote: ASCII digits and nothing else.

``str.isdigit`` knows more digits than ``int`` does, and ``int`` refuses thousands of them: one check serves all.
"""

from __future__ import annotations


def whole_number(text: str | bytes | None, *, digits_max: int = 19) -> int | None:
    """The number a text holds; None for anything else."""
    if text is None or len(text) > digits_max or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
