"""Warnings of a scan with their level and origin where nobody has set logging up.

Tasks and planners of Spark run in Python processes without any logging; there Python prints the bare text of a warning
among all that Spark says. A program that has handlers of its own gets the records as ever and nothing twice.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

from flaremq.log_lines import LineFormatter

_LOGGER: Final = logging.getLogger("flaremq")


class LastResort(logging.Handler):
    """Writes to stderr what no other handler would see."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(LineFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers or any(handler is not self for handler in _LOGGER.handlers):
            return
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def name_warnings() -> None:
    """From now on; once a process."""
    if not any(isinstance(handler, LastResort) for handler in _LOGGER.handlers):
        _LOGGER.addHandler(LastResort())
