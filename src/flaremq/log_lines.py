"""Log lines of servers: one line a record, whatever is quoted in it.

Client ids, topics, groups, addresses and remarks in a log come from whoever sent them. With a line end in one of them a
stranger could write lines of his own, with an escape he could command the terminal of whoever reads them. So what has
no glyph is spelled out here; only a traceback has several lines, indented, so that none of them looks like a record.
And what strangers can cause as often as they like is not written as often as they like (``LimitedLog``).
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from time import monotonic
from types import TracebackType
from typing import Final

from flaremq.visible import visible

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LIMIT_SECONDS: Final = 10.0
_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LineFormatter(logging.Formatter):
    """For any handler of a process that serves strangers."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))

    def formatException(self, ei: _ExceptionInfo) -> str:
        return "\n".join("  " + visible(line) for line in super().formatException(ei).split("\n"))


class JsonFormatter(logging.Formatter):
    """The same as one JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message`` and, with a traceback,
    ``error``. ASCII alone, so that no reader of lines finds an end in one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_level(name: str) -> None:
    """What goes into the log of this process: ``debug``, ``info``, ``warning``, ``error``; empty: as it was started."""
    logging.getLogger("flaremq").setLevel(name.upper() or logging.NOTSET)


class LimitedLog:
    """Lines of one kind: the first ones at once, then none until the time is over; the next one tells how many were
    left out."""

    def __init__(self, log: logging.Logger, *, seconds: float = _LIMIT_SECONDS, lines_max: int = 1) -> None:
        """At most ``lines_max`` lines in so many seconds."""
        self._log = log
        self._seconds = seconds
        self._lines_max = lines_max
        self._lines = self._left_out = 0  # in this time
        self._until = 0.0

    def warning(self, message: str, *arguments: object) -> None:
        self._write(logging.WARNING, message, arguments)

    def info(self, message: str, *arguments: object) -> None:
        self._write(logging.INFO, message, arguments)

    def _write(self, level: int, message: str, arguments: tuple[object, ...]) -> None:
        if not self._log.isEnabledFor(level):
            return
        now = monotonic()
        if now >= self._until:
            self._lines, self._until = 0, now + self._seconds
        if self._lines >= self._lines_max:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            message += f" ({self._left_out} lines like this were left out)"
            self._left_out = 0
        self._log.log(level, message, *arguments)
