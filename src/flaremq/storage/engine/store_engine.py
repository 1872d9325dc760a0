"""StoreEngine: everything behind MessageStore, put together, started and stopped in order.

Put appends to the log in the caller's thread and, in SYNC_FLUSH, waits for a sync it may share with others. Dispatch
then turns the durable part of the log into queue units and index entries, which is what readers see. A maintenance
thread makes those durable now and then, moves the point recovery starts from, and looks at the disk; a cleaning thread
deletes what is expired.

Locks, never taken in another order: ``StoreEngine._close_lock`` > the lock of retention > ``Checkpointer.lock`` >
``DispatchService.lock`` > ``log.flush_lock`` > ``log.lock`` (append, which takes it alone; deleting topics takes it
inside the dispatch lock). With ``threads=False`` nothing runs on its own: puts sync and dispatch inline and ``tick``
does the periodic work, which makes every run repeatable.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection
from dataclasses import dataclass, replace

from flaremq.clock import Clock
from flaremq.errors import CorruptionError, FlareMQError, StoreIOError, UnavailableError
from flaremq.storage.engine.checkpointer import Checkpointer
from flaremq.storage.engine.cleaning import Cleaner
from flaremq.storage.engine.dispatch_service import DispatchService
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.engine.flush_service import FlushService
from flaremq.storage.engine.inspection import StoreInspector
from flaremq.storage.engine.leases import Leases
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.engine.recovery import Recovery, RecoveryReport
from flaremq.storage.engine.retention import Retention
from flaremq.storage.engine.store_role import StoreRole
from flaremq.storage.engine.tail_cut import cut_tail
from flaremq.storage.engine.topic_deletion import TopicDeletion
from flaremq.storage.files.checkpoint import write_abort
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.get.pull import Puller
from flaremq.storage.get.reader import MessageReader
from flaremq.storage.options import StoreOptions, no_replication
from flaremq.storage.put.writer import MessageWriter
from flaremq.storage.runtime.services import ServiceThread

_log = logging.getLogger(__name__)
_FOLLOWED_SECONDS = 0.02  # between two drains while another process reads the files
_FOLLOWED_SHARE = 20  # and so many times what a drain takes: with many queues it must not become the main work


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMode:
    """How a store is opened; see ``MessageStore.open``."""

    threads: bool = True
    driven: bool = False
    hold_unconfirmed: bool = False
    cut_at: int | None = None


class StoreEngine:
    """One open store. Any thread."""

    def __init__(
        self,
        path: str,
        options: StoreOptions,
        filesystem: FileSystem,
        clock: Clock,
        mode: OpenMode,
    ) -> None:
        if options.replica_promises and not mode.driven:  # a broker checks what it can keep before it opens the store
            raise no_replication(*options.replica_promises)
        self.options = replace(options)  # our own: some values may be changed while the store is open
        self.threads = mode.threads
        self._driven = mode.driven
        self.closed = False
        self._close_lock = threading.Lock()  # one close at a time, and not while topics are deleted
        self._stopping = threading.Event()  # ends the pauses of cleaning
        self._services: list[ServiceThread] = []
        self._dispatch_thread: ServiceThread | None = None
        self._next_look = 0.0  # of maintenance, at what is not draining
        saved_tail = None
        if mode.cut_at is not None:
            saved_tail = _cut(path, options, filesystem, clock, mode.cut_at)
        self.parts = StoreParts(path, self.options, filesystem, clock, driven=mode.driven)
        self.dispatch = DispatchService(self.parts.dispatcher, self.parts.health)
        try:
            self.recovery = self._recover(mode)
            self.recovery.saved_tail = saved_tail or self.recovery.saved_tail
            self._assemble()
            self._start()
        except BaseException:
            self._release()
            raise

    # Opening

    def _recover(self, mode: OpenMode) -> RecoveryReport:
        parts = self.parts
        began = parts.clock.monotonic()
        report = Recovery(parts, hold_unconfirmed=mode.hold_unconfirmed).run()
        report.seconds = parts.clock.monotonic() - began
        if not report.closed_cleanly and mode.cut_at is None:  # a cut says for itself what it did
            _log.warning("%s was not closed cleanly; %s, %.2f s", parts.path, report, report.seconds)
        elif mode.cut_at is None:
            before = "it was closed cleanly" if report.log_end else "it is empty"
            _log.info("%s is open; %s, its log ends at %d", parts.path, before, report.log_end)
        return report

    def _assemble(self) -> None:
        parts, options = self.parts, self.options
        self.dispatch.report_damage()
        self.flush = FlushService(parts, self._after_append)
        # Before those that use the index: it rests if indexing was switched off.
        self.checkpointer = Checkpointer(parts, self.dispatch.lock, self.flush.group_commit)
        self.reader = MessageReader(parts.log, parts.queues, parts.index, parts.dispatcher, options)
        self.writer = MessageWriter(
            parts.log,
            self.flush.group_commit,
            parts.health,
            options,
            parts.clock,
            parts.statistics,
            self._after_append,
        )
        parts.dispatcher.written = self.writer.queue_offsets
        self.role = StoreRole(parts, self.writer, self.dispatch, self.checkpointer)
        self.role.number_queues()
        self.topic_deletion = TopicDeletion(parts, self.writer, self.dispatch, self.checkpointer)
        self.dispatch.follow_deletion = self.topic_deletion.follow
        self.retention = Retention(
            parts,
            self.checkpointer.may_delete_before,
            self.dispatch.lock,
            pause=self._stopping.wait if self.threads else _no_pause,
        )
        self._leases = Leases(parts.filesystem, parts.layout.leases)
        self.cleaner = Cleaner(self.retention, parts.log, parts.health, parts.statistics, options, parts.clock)
        self.inspector = StoreInspector(parts, self.reader, self.retention)

    def _start(self) -> None:
        parts = self.parts
        if self.options.broker_role == "SLAVE":
            self.role.become_replica()
        self._note_checkpoint_time()
        self.retention.check_disk()
        # What recovery rebuilt becomes durable, and the mark "closed cleanly" goes, before anything is appended.
        self.checkpointer.save()
        write_abort(parts.filesystem, parts.layout.abort, os.getpid())
        if not self.threads:
            return
        parts.allocation.start()
        if not self._driven:
            self._dispatch_thread = self.writer.dispatch_service = self.dispatch.new_thread()
            self._flush_thread = ServiceThread("flush", self.flush.step)
            self._services += [self._dispatch_thread, self._flush_thread]
        # Cleaning apart from the rest: a deletion that takes minutes must not keep checkpoints waiting.
        self._services.append(ServiceThread("maintenance", self.maintenance_step))
        self._services.append(ServiceThread("cleaning", self.cleaner.step))
        for service in self._services:
            service.start()

    def driver(self) -> StoreDriver:
        """The seams of a driven store, for its owner."""
        parts = self.parts
        puller = Puller(parts.log, parts.queues, self.reader, self.options)
        return StoreDriver(self.writer, self.flush, self.dispatch, puller, self.options, self.role)

    # Running

    def read_options(self) -> None:
        """Look again at those of the live options that are not looked up each time."""
        self.writer.read_options(self.options)
        self.reader.read_options(self.options)
        self.flush.read_options()

    def change_flush_disk_type(self, name: str) -> None:
        """What was put before is made durable, then this flush type decides what is readable."""
        self.flush.flush()
        object.__setattr__(self.options, "flush_disk_type", name)  # frozen for everybody else, and shared by all parts
        self.read_options()

    def _after_append(self, is_durable: bool = True) -> None:
        """Let dispatch, and in SYNC_FLUSH the flush if no put waits for it, handle what was appended."""
        thread = self._dispatch_thread
        if thread is not None:
            thread.wake_if_idle()
            if not is_durable and self.flush.sync_mode and self.parts.log.pending_bytes() > 0:
                self._flush_thread.wake_if_idle()
        elif not self.threads and not self._driven:
            self.dispatch.run()

    def maintenance_step(self) -> float:
        """One round of the maintenance thread; the seconds to the next.

        Units wait in memory for a second, unless somebody reads the files: a stream by ``path`` sees no message before
        its unit.
        """
        usual = min(self.options.flush_interval_consume_queue / 1000, 1.0)
        clock = self.parts.clock
        if self._driven:
            began = clock.monotonic()
            self.dispatch.drain_queues()
            if self._leases.are_fresh(clock.now_ms()):
                soon = max(_FOLLOWED_SECONDS, _FOLLOWED_SHARE * (clock.monotonic() - began))
                if began < self._next_look:
                    return soon
                self._next_look = began + usual
                usual = min(soon, usual)
        behind = self.parts.dispatcher.position - self.checkpointer.dispatched
        is_late = behind > 0 and self.parts.clock.monotonic() >= self._next_checkpoint
        if is_late or behind >= self.options.offset_checkpoint_bytes:
            self._note_checkpoint_time()
            self.checkpointer.save_quietly()
        self.cleaner.look()
        return usual

    def _note_checkpoint_time(self) -> None:
        seconds = self.options.flush_consume_queue_thorough_interval / 1000
        self._next_checkpoint = self.parts.clock.monotonic() + seconds

    def tick(self) -> None:
        """All periodic work once, now."""
        log = self.parts.log
        if log.pending_bytes() and self.parts.health.poison is None:
            self.flush.group_commit.wait(log.end_offset)
        self.dispatch.run()
        self.checkpointer.save_quietly()
        self.retention.run_round()

    def delete_topics(self, topics: Collection[str]) -> int:
        """See MessageStore.delete_topics."""
        with self._close_lock:
            self.check_open()
            if not self._driven:  # whoever drives a store wants to hear of what is dispatched
                self.dispatch.run()
            return self.topic_deletion.delete(topics)

    def follow_deletion(self, topic: str, end: int) -> None:
        """See MessageStore.follow_deletion."""
        with self._close_lock:
            self.check_open()
            self.topic_deletion.follow(topic, end)

    # Closing

    def check_open(self) -> None:
        if self.closed:
            raise UnavailableError(f"the store {self.parts.path} is closed")

    def close(self) -> None:
        """Stop taking messages, dispatch and flush everything, mark the store as closed cleanly."""
        with self._close_lock:
            if not self.closed:
                self._close()

    def _close(self) -> None:
        parts, health = self.parts, self.parts.health
        self.role.close()
        self._stop_services()
        failure: FlareMQError | None = None
        try:
            if health.poison is None:
                self.flush.flush()
                self.dispatch.run()
                if self.dispatch.undispatched > 0:  # what waits for copies is left as it is
                    failure = StoreIOError("dispatch", parts.path, OSError(health.refusal or "not finished"))
            failure = health.poison or self.checkpointer.views_failure or failure
            if failure is None:
                parts.allocation.stop()
                self.checkpointer.save(log_end=parts.log.end_offset)
                parts.filesystem.remove(parts.layout.abort)
                parts.filesystem.sync_directory(parts.path)
                _log.info("%s is closed cleanly", parts.path)
            else:
                _log.error("%s is left for recovery: %s", parts.path, failure)
        finally:
            self._release()

    def abandon(self) -> None:
        """Drop everything as a killed process would: no flush, no checkpoint, ``abort`` stays. For tests."""
        self.role.close()
        self._stop_services()
        self._release()

    def _stop_services(self) -> None:
        self._stopping.set()
        for service in self._services:
            service.stop()

    def _release(self) -> None:
        self.closed = True
        self.dispatch.close()
        self.parts.close()


def _cut(path: str, options: StoreOptions, filesystem: FileSystem, clock: Clock, cut_at: int) -> str | None:
    """Cut the log of a store that nobody has open; where the copy of its tail is."""
    # Nothing that may be cut off is shown to those who read the files.
    mode = OpenMode(threads=False, driven=True, hold_unconfirmed=True)
    engine = StoreEngine(path, options, filesystem, clock, mode)
    try:
        saved = cut_tail(engine.parts, cut_at)
    except CorruptionError:
        engine.close()
        raise
    except BaseException:
        engine.abandon()
        raise
    if saved is None:
        engine.close()
    else:
        engine.abandon()
    return saved


def _no_pause(seconds: float) -> bool:
    """Without threads nothing waits."""
    return False
