"""Dispatching: when appended records become visible to readers, and the callbacks for arrivals.

Dispatch costs per batch, so without a waiting consumer it gathers what arrives within ``_GATHER_SECONDS``. If somebody
waits for arrivals of a topic, or for a record that was put, it runs in the next turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore

_log = logging.getLogger(__name__)
_GATHER_SECONDS = 0.01

ArrivalCallback = Callable[[set[tuple[str, int]]], None]


class Dispatching:
    """Schedules the dispatch of one driven store. Event loop only."""

    def __init__(self, store: MessageStore, driver: StoreDriver) -> None:
        self._store = store
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self.on_arrival: list[ArrivalCallback] = []  # called with the (topic, queue id) that have new messages
        self.awaited: dict[str, int] = {}  # how many wait for arrivals of a topic
        self.is_paused = False
        self._urgent = 0  # records before this offset are awaited
        self._handle: asyncio.Handle | None = None
        self._is_closed = False

    def await_topic(self, topic: str) -> None:
        """Somebody waits for arrivals of a topic: dispatch them, and what is appended already, at once."""
        self.awaited[topic] = self.awaited.get(topic, 0) + 1
        self.mark_urgent()
        self._hurry()

    def forget_topic(self, topic: str) -> None:
        """One of those that waited for arrivals of a topic does so no more."""
        left = self.awaited.get(topic, 0) - 1
        if left > 0:
            self.awaited[topic] = left
        else:
            self.awaited.pop(topic, None)

    def note_awaited(self, topic: str, end_offset: int) -> None:
        """A message of a topic was appended: if somebody waits for one, it is not gathered with others."""
        if topic in self.awaited:
            self._urgent = end_offset

    def mark_urgent(self) -> None:
        """Everything appended so far is waited for."""
        self._urgent = self._driver.appended

    def appended(self) -> None:
        """In ASYNC_FLUSH, after an append: it is readable as soon as it is dispatched."""
        if self._handle is None:
            self._schedule()
        elif self._urgent >= self._driver.appended:
            self._hurry()

    def synced(self) -> None:
        """In SYNC_FLUSH, after a sync: what became durable may be dispatched."""
        if self._driver.undispatched > 0:
            if self._handle is None:
                self._schedule()
            elif self._urgent > self._store.dispatched_offset:
                self._hurry()

    def _schedule(self) -> None:
        if self._urgent > self._store.dispatched_offset:
            self._handle = self._loop.call_soon(self._dispatch)
        else:
            self._handle = self._loop.call_later(_GATHER_SECONDS, self._dispatch)

    def _hurry(self) -> None:
        """Do not gather any longer: a scheduled dispatch runs in the next turn of the loop."""
        if self._handle is not None and self._driver.undispatched > 0:
            self._handle.cancel()
            self._handle = self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._handle = None
        if self._is_closed:
            return
        self.catch_up()
        if self._driver.undispatched > 0 and not self.is_paused:
            # A failed dispatch is tried again, less and less eagerly than the next append would.
            pause = 1.0 if self._driver.has_dispatch_error else 0.0
            self._handle = self._loop.call_later(pause, self._dispatch)

    def catch_up(self) -> None:
        """Dispatch what may be read, now, and call back about arrivals."""
        if self._driver.undispatched <= 0 or self.is_paused:
            return
        touched = self._driver.dispatch()
        if touched:
            for callback in self.on_arrival:
                try:
                    callback(touched)
                except Exception:
                    _log.exception("while waking those who wait for messages")

    def close(self) -> None:
        self._is_closed = True
        if self._handle is not None:
            self._handle.cancel()
