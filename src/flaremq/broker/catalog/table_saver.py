"""Saving a table off the event loop: the newest state, and as few writes as it takes.

The tables of a broker live on the event loop; a write with its syncs takes milliseconds and runs on a worker thread.
Changes made while a write is under way go into the next one together, so a burst of new topics costs a few writes, not
one each. A handler whose change must be durable before its reply awaits :meth:`TableSaver.save`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from flaremq.storage.config.config_file import ConfigFile

Run = Callable[..., Awaitable[Any]]  # StoreLoop.run: a function and its arguments, on a worker thread


Document = Callable[[], Mapping[str, Any]]  # called where it is written, one at a time


async def run_inline(function: Callable[..., Any], *arguments: Any) -> Any:
    """A `Run` without threads, for tests and small tools."""
    return function(*arguments)


class TableSaver:
    """Saves one table to its file. Event loop only, but for :meth:`save_now`."""

    __slots__ = ("_changes", "_file", "_lock", "_on_disk", "_run", "_saved", "_snapshot", "_writing")

    def __init__(self, file: ConfigFile, snapshot: Callable[[], Document], run: Run = run_inline) -> None:
        self._file = file
        self._snapshot = snapshot  # called on the loop, and quick: it copies what must not change under the writer
        self._run = run
        self._changes = 0
        self._saved = 0
        self._on_disk = 0  # the state the file holds; guarded by the lock
        self._lock = threading.Lock()
        self._writing: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """The table differs from what is on disk."""
        self._changes += 1

    @property
    def is_saved(self) -> bool:
        return self._saved == self._changes

    async def save(self) -> None:
        """Return when every change made before this call is on disk; StoreIOError if it cannot be."""
        wanted = self._changes
        while self._saved < wanted:
            # Shielded: one caller that gives up must not break the write the others wait for.
            await asyncio.shield(self._begin())

    def save_soon(self) -> None:
        """Begin to write if there is something to write; a failure is left to the next one who saves."""
        if self._saved < self._changes:
            self._begin()

    def _begin(self) -> asyncio.Task[None]:
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
            self._writing.add_done_callback(_seen)
        return self._writing

    async def _write(self) -> None:
        number = self._changes
        try:
            await self._run(self._put, number, self._snapshot())
        finally:
            self._writing = None
        self._saved = max(self._saved, number)

    def save_now(self) -> None:
        """Write on this thread; for the end, when nothing else runs."""
        number = self._changes
        if self._saved < number:
            self._put(number, self._snapshot())
            self._saved = number

    def _put(self, number: int, document: Document) -> None:
        """Write a state, unless a newer one is there: the last write may have waited behind a `save_now`."""
        with self._lock:
            if number > self._on_disk:
                self._file.save(document())
                self._on_disk = number


def _seen(task: asyncio.Task[None]) -> None:
    """Everybody may have given up waiting; the failure is then the next saver's, not the loop's."""
    if not task.cancelled():
        task.exception()
