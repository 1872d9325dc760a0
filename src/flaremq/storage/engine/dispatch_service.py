"""DispatchService: runs the dispatcher over what is readable, and wakes those who wait for what it shows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from flaremq.errors import FlareMQError, StoreIOError
from flaremq.storage.dispatch.dispatcher import Dispatcher
from flaremq.storage.dispatch.view_writer import TopicBeganAnewError
from flaremq.storage.log.commit_log import NO_GATE
from flaremq.storage.runtime.health import Health, RunningFlag
from flaremq.storage.runtime.services import ServiceThread

_log = logging.getLogger(__name__)
_DRAIN_QUEUES = 64  # queues drained at a time: dispatch waits meanwhile
_GATHER_SECONDS = 0.02  # a busy log is dispatched in slices of this length unless a caller asks for more
_GATHER_SECONDS_MIN = 0.001  # as often as RocketMQ looks; more often, one who polls would slow the writers down


class DispatchService:
    """Dispatch of an open store. Any thread."""

    def __init__(self, dispatcher: Dispatcher, health: Health) -> None:
        self.dispatcher = dispatcher
        self._health = health
        self._log = dispatcher.log
        self.lock = threading.Lock()  # guards queues and index against two writers
        self._arrival = threading.Condition()  # wakes ``wait_until``
        self.waiters = 0
        self._closed = False
        self.follow_deletion: Callable[[str, int], None] = dispatcher.begin_anew  # the engine has one with locks
        self.thread: ServiceThread | None = None
        health.on_fail_stop = self._notify

    @property
    def undispatched(self) -> int:
        """Readable bytes that no queue shows yet; 0 while they are only part of a record."""
        readable = self._log.readable_offset
        return readable - self.dispatcher.position if readable >= self.dispatcher.awaited_end else 0

    def new_thread(self) -> ServiceThread:
        self.thread = ServiceThread("dispatch", self.step, lambda: self.undispatched > 0)
        return self.thread

    def run(self) -> None:
        """Dispatch what is readable now; an error is kept in the health flags and tried again later.

        Slice by slice: checkpoint and retention get the lock, and readers their messages, in between.
        """
        target = self._log.readable_offset
        while self.dispatcher.position < target and self._health.poison is None:
            before = self.dispatcher.position
            try:
                with self.lock:
                    self.run_slice(min(target, self._log.readable_offset))  # the gate may have been lowered since
            except TopicBeganAnewError as news:
                if self._follow(news):
                    continue
                return
            except Exception as error:
                # Whatever it is: nothing becomes readable, so nothing more is taken until it works again.
                if not isinstance(error, StoreIOError):
                    _log.exception("dispatch failed at log offset %d", self.dispatcher.position)
                self._health.set(RunningFlag.LOGIC_QUEUE_ERROR, f"queues cannot be written: {error}")
                return
            if self.waiters:
                self._notify()
            if self.dispatcher.position == before:
                break
        self._health.clear(RunningFlag.LOGIC_QUEUE_ERROR)

    def _follow(self, news: TopicBeganAnewError) -> bool:
        """Delete a topic as the master did; False if that does not work now."""
        try:
            self.follow_deletion(news.topic, news.end)
        except FlareMQError as error:
            self._health.set(RunningFlag.LOGIC_QUEUE_ERROR, f"{news}, and cannot be deleted here: {error}")
            return False
        return True

    def run_slice(self, target: int) -> None:
        """One slice, with the lock held."""
        dispatcher, log = self.dispatcher, self._log
        if self._health.poison is not None:
            return  # since the lock was asked for: what queues hold may be undone by the next start
        if dispatcher.position < log.min_offset:
            dispatcher.position = log.min_offset
        before = dispatcher.damage.count
        try:
            dispatcher.run_live(target)
        finally:
            if dispatcher.damage.count > before:
                self.report_damage()

    def report_damage(self) -> None:
        """Say in the health flags which parts of the log no queue shows."""
        damage = self.dispatcher.damage
        last = damage.last
        if last is not None:
            where = f"{damage.count} ranges of the log, {damage.bytes} bytes, are in no queue"
            self._health.set(RunningFlag.LOG_DAMAGED, f"{where}; the last at {last.start}: {last.reason}")

    def confirm(self, offset: int | None) -> None:
        """Show no more than copies confirm; None: wait for no copies. What was shown stays, whatever is said later."""
        log = self._log
        if offset is None:
            log.confirm_offset = NO_GATE
        elif offset >= log.confirm_offset:
            log.confirm_offset = offset
        else:
            with self.lock:
                log.confirm_offset = max(offset, self.dispatcher.position)

    def step(self) -> float:
        """One round of the dispatch thread; the seconds to the next."""
        if self.undispatched <= 0:
            return 0.5
        if self._health.poison is not None:
            return 1.0
        self.run()
        if self._health.flags & RunningFlag.LOGIC_QUEUE_ERROR:
            return 1.0
        if not self.waiters and self.thread is not None:
            self.thread.gather(_GATHER_SECONDS_MIN, _GATHER_SECONDS)
        return 0.0

    def hurry(self) -> None:
        """A reader came to the end of what is dispatched: the rest of the log is not left to gather."""
        if self.thread is not None and self.undispatched > 0:
            self.thread.wake()

    def drain_queues(self) -> None:
        """Write the units that dispatch keeps in memory, for those who read the files."""
        waiting = self.dispatcher.queues.with_tail()
        for first in range(0, len(waiting), _DRAIN_QUEUES):
            with self.lock:
                try:
                    for queue in waiting[first : first + _DRAIN_QUEUES]:
                        queue.drain()
                except StoreIOError as error:
                    self._health.set(RunningFlag.LOGIC_QUEUE_ERROR, f"queues cannot be written: {error}")
                    return
        if self.undispatched <= 0:
            # Dispatch has nothing left to retry, so only this write can show that the disk works again.
            self._health.clear(RunningFlag.LOGIC_QUEUE_ERROR)

    def wait_until(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for something that dispatch brings about; False after ``timeout`` seconds or if it cannot any more."""
        with self._arrival:
            self.waiters += 1
            try:
                if self.thread is not None:
                    self.thread.wake()
                self._arrival.wait_for(lambda: reached() or self._closed or self._health.poison, timeout)
                return reached()
            finally:
                self.waiters -= 1

    def close(self) -> None:
        """Nothing more is dispatched: let go of those who wait."""
        self._closed = True
        self._notify()

    def _notify(self) -> None:
        with self._arrival:
            self._arrival.notify_all()
