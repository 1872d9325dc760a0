"""Log lines of servers: one line a record, whatever is quoted in it.

Client ids, topics, groups, addresses and remarks in a log come from whoever sent them. With a line end in one of them a
stranger could write lines of his own, with an escape he could command the terminal of whoever reads them. So what has
no glyph is spelled out here; only a traceback has several lines, indented, so that none of them looks like a record.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from types import TracebackType

from flaremq.visible import visible

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
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
