"""When to sync: group commit for SYNC_FLUSH, a timed flush for ASYNC_FLUSH, and one rule for both.

The rule: ``flushed`` moves only after the sync that covers it succeeded. A failed sync may have dropped pages the
kernel now calls clean, so it is never retried: the log is *poisoned*, nothing more is acknowledged, and only a
restart (which reads what really is on disk) helps.

Group commit has no thread of its own. The first waiter becomes the leader and syncs in its own thread; whoever
arrives meanwhile waits, and one sync then serves all of them. A single writer pays no thread switch at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

from flaremq.errors import StoreIOError


class _Waiter:
    """A thread that waits.

    Those that one sync served are woken one after the other, each by the one before it. Woken all at once they would
    be put to sleep again by the GIL and woken twice.
    """

    __slots__ = ("following", "gate", "is_woken", "leads", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.leads = False
        self.is_woken = False
        self.following: _Waiter | None = None  # to be woken by this one
        self.gate = threading.Lock()
        self.gate.acquire()

    def wake(self) -> None:
        self.is_woken = True
        self.gate.release()


class GroupCommit:
    """Waits until the log is durable up to an offset, sharing syncs between threads.

    ``sync`` makes everything appended so far durable and returns the offset reached; it raises StoreIOError once
    and is never called again after that.
    """

    __slots__ = ("_leading", "_mutex", "_sync", "_waiting", "durable", "failure")

    def __init__(self, sync: Callable[[], int], durable: int) -> None:
        self._sync = sync
        self.durable = durable
        self.failure: StoreIOError | None = None
        self._mutex = threading.Lock()  # guards the fields below, durable and failure
        self._leading = False
        self._waiting: list[_Waiter] = []

    def wait(self, offset: int, timeout: float = -1) -> bool:
        """True once durable up to ``offset``; False after ``timeout`` seconds or a failed sync."""
        with self._mutex:
            if self.durable >= offset:
                return True
            if self.failure is not None:
                return False
            if self._leading:
                waiter = _Waiter(offset)
                self._waiting.append(waiter)
            else:
                waiter = None
                self._leading = True
        if waiter is None:
            self._lead()
            return self.durable >= offset
        try:
            waiter.gate.acquire(timeout=timeout)
        except BaseException:  # Ctrl-C: leave the queue, or do the duty that was just handed over
            if not self._leave(waiter):
                self._take_turn(waiter)
            raise
        if waiter.is_woken or not self._leave(waiter):
            self._take_turn(waiter)
        return self.durable >= offset

    def _take_turn(self, waiter: _Waiter) -> None:
        """What a waiter owes to the others once it is taken out of the queue: wake the next one, lead if told."""
        if not waiter.is_woken:
            waiter.gate.acquire()  # it gave up just before its turn
        if waiter.following is not None:
            waiter.following.wake()
        if waiter.leads:
            self._lead()

    def _leave(self, waiter: _Waiter) -> bool:
        """Take a waiter out again; False if it was woken already."""
        with self._mutex:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                return True
            return False

    def _lead(self) -> None:
        reached, failure = -1, None
        try:
            reached = self._sync()
        except StoreIOError as error:
            failure = error
        finally:
            with self._mutex:
                self.durable = max(self.durable, reached)
                self.failure = self.failure or failure
                if self.failure is not None:
                    done, rest = self._waiting, []
                else:
                    done = [waiter for waiter in self._waiting if waiter.offset <= self.durable]
                    rest = [waiter for waiter in self._waiting if waiter.offset > self.durable]
                successor = rest.pop(0) if rest else None
                self._waiting = rest
                if successor is None:
                    self._leading = False
                else:
                    successor.leads = True
            line = done if successor is None else [successor, *done]  # the next sync does not wait for those it spares
            for waiter, following in pairwise(line):
                waiter.following = following
            if line:
                line[0].wake()


class FlushTimer:
    """The decision of the timed flush: enough pages, or long enough since the last thorough one."""

    __slots__ = ("_last_thorough", "_thorough_seconds", "least_pages")

    def __init__(self, *, least_pages: int, thorough_interval_ms: int, now: float) -> None:
        self.least_pages = least_pages
        self._thorough_seconds = thorough_interval_ms / 1000
        self._last_thorough = now

    def is_due(self, *, pending_bytes: int, now: float) -> bool:
        if now - self._last_thorough >= self._thorough_seconds:
            self._last_thorough = now
            return pending_bytes > 0
        return pending_bytes > 0 and pending_bytes >= self.least_pages * 4096
