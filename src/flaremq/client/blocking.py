"""An event loop on a thread of its own: how blocking code uses what is written for asyncio."""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, TypeVar

from flaremq.errors import InvalidArgumentError

P = ParamSpec("P")
R = TypeVar("R")
_EXIT_S: Final = 5.0  # a loop that does not stop holds nobody's exit up for longer


class LoopThread:
    """Runs an event loop until ``close``. Called from any thread but its own."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or _new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _running.add(self)

    @property
    def is_alive(self) -> bool:
        """False after ``close``, and in a process that was forked."""
        return self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, R], timeout: float | None = None) -> R:
        """Run a coroutine there and wait for it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise InvalidArgumentError("a blocking client cannot be used on its own event loop: use the asyncio one")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def apply(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function there and wait for it."""

        async def work() -> R:
            return function(*arguments, **named)

        return self.call(work())

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Run a coroutine there without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self, timeout: float | None = None) -> None:
        """Stop the loop; whatever still runs on it is left where it is."""
        if self.is_alive:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()


_running: weakref.WeakSet[LoopThread] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A loop that nobody closed must not run on while the interpreter is taken down: uvloop's crashes then."""
    for thread in list(_running):
        thread.close(_EXIT_S)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
