"""When to sync: group commit for SYNC_FLUSH, a timed flush for ASYNC_FLUSH, and one rule for both.

The rule: ``flushed`` moves only after the sync that covers it succeeded. A failed sync may have dropped pages the
kernel now calls clean, so it is never retried: the log is *poisoned*, nothing more is acknowledged, and only a
restart (which reads what really is on disk) helps.

Group commit has no thread of its own. The first waiter becomes the leader and syncs in its own thread; whoever
arrives meanwhile waits, and one sync then serves all of them. A single writer pays no thread switch at all.

Those that a sync served come back at once when they do nothing but put. Would the next one lead without them, they
were split in two halves for ever, each of which waits for two syncs. So who could lead first waits for as many as
were there around the sync before, for two syncs at most; the last one to come leads. Where they do not come, the next
syncs do not wait for them, the more of these the more often that happens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

from flaremq.errors import StoreIOError

_PAUSE_MAX_SECONDS = 0.001  # threads that come back later than this do something else as well
_DOUBTS_MAX = 10  # 1,024 syncs between two attempts


class _Waiter:
    """A thread that waits.

    Those that one sync served are woken one after the other, each by the one before it. Woken all at once they would
    be put to sleep again by the GIL and woken twice.
    """

    __slots__ = ("following", "gate", "is_queued", "is_woken", "leads", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.leads = False
        self.is_queued = False  # it waits for others, whether they took it out of the queue by now or not
        self.is_woken = False
        self.following: _Waiter | None = None  # to be woken by this one
        self.gate = threading.Lock()
        self.gate.acquire()

    def wake(self) -> None:
        self.is_woken = True
        self.open_gate()

    def open_gate(self) -> None:
        with suppress(RuntimeError):  # it was told to gather, and did not run since
            self.gate.release()


class GroupCommit:
    """Waits until the log is durable up to an offset, sharing syncs between threads.

    ``sync`` makes everything appended so far durable and returns the offset reached; it raises StoreIOError once
    and is never called again after that.
    """

    __slots__ = (
        "_crowd",
        "_doubts",
        "_gatherer",
        "_leading",
        "_mutex",
        "_pause",
        "_spared",
        "_sync",
        "_waiting",
        "durable",
        "failure",
    )

    def __init__(self, sync: Callable[[], int], durable: int) -> None:
        self._sync = sync
        self.durable = durable
        self.failure: StoreIOError | None = None
        self._mutex = threading.Lock()  # guards the fields below, durable and failure
        self._leading = False
        self._waiting: list[_Waiter] = []
        self._gatherer: _Waiter | None = None  # nobody leads: this one will after the pause, or whoever comes last
        self._crowd = 1  # how many are expected to wait for the next sync
        self._pause = 0.0  # seconds to wait for them
        self._doubts = 0  # how often in a row they did not come
        self._spared = 0  # syncs that do not wait for anybody, for that reason

    def wait(self, offset: int, timeout: float = -1) -> bool:
        """True once durable up to ``offset``; False after ``timeout`` seconds or a failed sync."""
        waiter = _Waiter(offset)
        try:
            with self._mutex:
                if self.durable >= offset:
                    return True
                if self.failure is not None:
                    return False
                if self._leading or len(self._waiting) + 1 < self._crowd:
                    if not self._leading and self._gatherer is None:
                        self._gatherer = waiter
                    waiter.is_queued = True
                    self._waiting.append(waiter)
                else:
                    if self._crowd > 1:
                        self._doubts = 0
                    self._gatherer = None
                    self._leading = waiter.leads = True
            if waiter.leads or not self._stay(waiter, timeout):
                self._take_turn(waiter)
        except BaseException:  # Ctrl-C: leave the queue, or do the duty that was just handed over
            if waiter.leads or (waiter.is_queued and not self._leave(waiter)):
                self._take_turn(waiter)
            raise
        return self.durable >= offset

    def _stay(self, waiter: _Waiter, timeout: float) -> bool:
        """Wait for a turn; True if the time was over before and the waiter has left the queue."""
        deadline = time.monotonic() + timeout
        while not waiter.is_woken:
            left = max(deadline - time.monotonic(), 0.0) if timeout >= 0 else -1.0
            gathers = self._gatherer is waiter
            if gathers:
                left = self._pause if left < 0 else min(left, self._pause)
            if waiter.gate.acquire(timeout=left):
                continue  # served, or told to gather
            if not gathers:
                return self._leave(waiter)
            if self._take_lead(waiter):
                return False
        return False

    def _take_lead(self, waiter: _Waiter) -> bool:
        """The pause is over, or its own time: those who are there will do. False if another one leads."""
        with self._mutex:
            if self._gatherer is not waiter:
                return False
            if len(self._waiting) < self._crowd:
                self._doubts = min(self._doubts + 1, _DOUBTS_MAX)
                self._spared = 1 << self._doubts
            self._gatherer = None
            waiter.is_queued = False
            self._leading = waiter.leads = True
            self._waiting.remove(waiter)  # the only place for Ctrl-C: it leads by then
            return True

    def _take_turn(self, waiter: _Waiter) -> None:
        """What a waiter owes to the others once it is taken out of the queue: wake the next one, or lead."""
        if waiter.leads:
            self._lead(waiter)
            return
        while not waiter.is_woken:  # it gave up just before its turn
            waiter.gate.acquire()
        if waiter.following is not None:
            waiter.following.wake()

    def _leave(self, waiter: _Waiter) -> bool:
        """Take a waiter out again; False if it was woken already, or leads."""
        with self._mutex:
            if waiter not in self._waiting:
                return False
            waiter.is_queued = False
            self._waiting.remove(waiter)
            if self._gatherer is waiter:
                self._let_gather()
            return True

    def _let_gather(self) -> None:
        """Nobody leads any more: the one that waits longest does next, once the others are there. With the mutex."""
        self._gatherer = self._waiting[0] if self._waiting else None
        if self._gatherer is not None:
            self._gatherer.open_gate()

    def _lead(self, leader: _Waiter) -> None:
        reached = -1
        begin = time.monotonic()
        try:
            if self.failure is None:  # else Ctrl-C came between a failed sync and those who wait for it
                reached = self._sync()
        except StoreIOError as error:
            self.failure = error
        finally:
            took = time.monotonic() - begin
            with self._mutex:
                self.durable = max(self.durable, reached)
                if self.failure is not None:
                    done, rest = self._waiting, []
                else:
                    done = [waiter for waiter in self._waiting if waiter.offset <= self.durable]
                    rest = [waiter for waiter in self._waiting if waiter.offset > self.durable]
                self._waiting = rest
                self._leading = leader.leads = False
                self._expect(len(done) + len(rest) + 1, took)
                self._let_gather()
            for waiter, following in pairwise(done):
                waiter.following = following
            if done:
                done[0].wake()

    def _expect(self, crowd: int, took: float) -> None:
        """How many the next sync waits for, and how long."""
        if self._spared:
            self._spared -= 1
            crowd = 1
        self._crowd = crowd
        self._pause = min(2 * took, _PAUSE_MAX_SECONDS) if crowd > len(self._waiting) else 0.0


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
