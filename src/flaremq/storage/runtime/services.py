"""The threads of a store: flush, dispatch, maintenance, cleaning. Each is a loop around one method of the store.

A loop survives any error it does not understand: it logs it with the traceback and tries again, and tells the
health of the store where that matters, so that a dead dispatch is never silent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)


class ServiceThread:
    """Calls ``step`` again and again until stopped; ``step`` returns how many seconds to wait (woken earlier)."""

    __slots__ = ("_name", "_pending", "_step", "_stopped", "_thread", "_wake", "idle")

    def __init__(self, name: str, step: Callable[[], float], pending: Callable[[], bool] | None = None) -> None:
        self._name = name
        self._step = step
        self._pending = pending  # asked once more after ``idle`` is set, so that no wake-up is lost
        self._wake = threading.Event()
        self.idle = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"flaremq-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake_if_idle(self) -> None:
        """Cheap enough for every put: one attribute unless the thread really sleeps."""
        if self.idle:
            self.idle = False
            self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def gather(self, least: float, most: float) -> None:
        """Within a step: let work pile up for a while, shorter if woken, however much of it comes in."""
        time.sleep(least)
        if not self._stopped:
            self._wake.wait(most - least)
            self._wake.clear()

    def _run(self) -> None:
        while not self._stopped:
            try:
                seconds = self._step()
            except Exception:
                _log.exception("%s: an unexpected error; trying again in a second", self._name)
                seconds = 1.0
            if seconds > 0 and not self._stopped:
                self.idle = True
                if self._pending is None or not self._pending() or seconds >= 1.0:
                    self._wake.wait(seconds)
                self.idle = False
                self._wake.clear()

    def stop(self) -> None:
        """Finish the step under way and end."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
