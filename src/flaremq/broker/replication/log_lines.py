"""One line a while: what strangers can cause as often as they like is not written as often as they like."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Final

_SECONDS: Final = 10.0


class LimitedLog:
    """Lines of one kind: the first at once, then one in ten seconds, which tells how many were left out."""

    def __init__(self, log: logging.Logger, *, seconds: float = _SECONDS) -> None:
        self._log = log
        self._seconds = seconds
        self._next = 0.0
        self._left_out = 0

    def warning(self, message: str, *arguments: object) -> None:
        now = monotonic()
        if now < self._next:
            self._left_out += 1
            return
        self._next = now + self._seconds
        if self._left_out:
            message += f" ({self._left_out} lines like this were left out)"
            self._left_out = 0
        self._log.warning(message, *arguments)
