"""Doing a thing again and again as a log grows: what may pass is tried again, each time after twice the pause."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from flaremq.errors import StoreIOError, UnavailableError

_log = logging.getLogger(__name__)
_PAUSE_MAX_SECONDS: Final = 600.0  # after failures


def follow_up(
    step: Callable[[], None],
    interval: float,
    stop: threading.Event,
    *,
    what: str,
    lasting: tuple[type[Exception], ...] = (),
) -> None:
    """``step`` every ``interval`` seconds until ``stop`` or Ctrl-C; ``lasting`` errors and those of usage end it."""
    failures = 0
    try:
        while not stop.is_set():
            try:
                step()
                failures = 0
            except Exception as error:
                if isinstance(error, lasting) or not may_pass(error):
                    raise
                failures += 1
                _log.warning("%s: failed, tried again in %g s: %s", what, pause(interval, failures), error)
            if stop.wait(pause(interval, failures)):
                break
    except KeyboardInterrupt:
        pass


def may_pass(error: Exception) -> bool:
    """Whether trying again may help. Spark's own failures (a lost executor) may; without Spark nothing does."""
    if isinstance(error, UnavailableError | StoreIOError | OSError):
        return True
    is_of_spark = type(error).__module__.split(".")[0] in ("py4j", "pyspark")
    return is_of_spark and "SparkContext" not in str(error) and not isinstance(error, ConnectionError)


def pause(interval: float, failures: int) -> float:
    return min(interval * 2**failures, max(interval, _PAUSE_MAX_SECONDS)) if failures else interval
