"""Durability: when a broker syncs, where, and the appends that wait for it and for the slaves.

Syncing blocks and has a thread of its own; one sync serves everything appended meanwhile, and the loop hears of its end
once. The loop then acknowledges what became durable and lets it be dispatched. In SYNC_FLUSH nothing is acknowledged
before it is durable; after a failed sync nothing is acknowledged any more.

With a ``group`` (the slaves of a SYNC_MASTER) the same wait covers both: an append is acknowledged when it is durable
here and enough slaves have it, whichever comes last, and readers see no more than that. What counts here is the durable
end of the log in SYNC_FLUSH, its end in ASYNC_FLUSH. Slaves that do not answer in ``slave_timeout_seconds`` are not
waited for any longer: the sender hears that its message is stored, but on this broker only as far as we know; readers
go on waiting.

Waking a thread and being woken by it takes longer than a fast disk takes to sync. So the loop syncs by itself while
nobody can miss it: whatever was read since the last sync waits for this one, and the syncs before were short. As soon
as something else is read (a pull, say) or the disk takes its time, the thread syncs again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Protocol

from flaremq.broker.store_loop.dispatching import Dispatching
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.metrics.histogram import Histogram
from flaremq.remoting.handlers import ReadCount
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore
from flaremq.storage.status import PutMessageStatus

_log = logging.getLogger(__name__)
_EXPIRY_SECONDS = 0.1  # between two looks for who waits too long
_SHORT_SECONDS = 0.001  # a sync that the loop may wait for
_SHORT_SYNCS = 8  # in a row, with nothing else to do, before the loop syncs by itself
ALONE_APPENDS = 8  # in a row that had nothing to share a frame with, before slaves get the next one at once
_SYNC_BYTES_MAX = 256 << 10  # more takes a disk longer
SYNC_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
GROUP_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)

DurableCallback = Callable[[PutMessageStatus], None]


class ReplicaGroup(Protocol):
    """The slaves as the wait for them sees them: ``replication.replicas.Replicas``."""

    def confirmed(self, own: int) -> int:
        """The offset up to which enough copies hold the log, this one holding it up to ``own``."""

    def is_unavailable(self, record_end: int) -> bool:
        """Whether waiting for slaves to reach an offset is in vain."""

    def refusal(self, own_end: int) -> object | None:
        """Not None: too few slaves keep up for anything to be stored."""


class Durability:
    """When appends of one driven store are durable. Make and use it on the loop."""

    def __init__(
        self, store: MessageStore, driver: StoreDriver, dispatching: Dispatching, *, timeout_seconds: float
    ) -> None:
        self._store = store
        self._driver = driver
        self._dispatching = dispatching
        self._loop = asyncio.get_running_loop()
        self.waits_for_sync = driver.sync_mode  # whether an append must be durable before it is acknowledged
        self.acknowledges_later = driver.sync_mode  # whether an append has to wait for anything: disk or slaves
        self.timeout_seconds = timeout_seconds
        self.slave_timeout_seconds = timeout_seconds
        self._group: ReplicaGroup | None = None
        self.has_group = False  # whether slaves are waited for
        self.on_progress: Callable[[], None] | None = None  # the log grew or became durable; at most once a turn
        self._is_progress_scheduled = False
        self._expiry: asyncio.TimerHandle | None = None
        # (end of record, since, callback, messages)
        self._waiting: deque[tuple[int, float, DurableCallback, int]] = deque()
        self.unacknowledged = 0  # messages that wait for a sync
        self._alone = 0  # appends in a row of which each found that nothing else waited
        self.answers_alone = False  # for a callback: nobody else is let go with it, whose answers could join its own
        self._flush_type_lock = asyncio.Lock()  # one change at a time
        self._failure: StoreIOError | None = None
        self._is_closed = False
        self.reads = ReadCount()  # of the connections that appends come from
        self._reads_before = 0  # the last sync began
        self._appends = 0  # since then
        self._is_scheduled = False  # a sync begins at the end of this turn of the loop
        self._short_syncs = 0  # in a row
        self.sync_seconds = Histogram(SYNC_BOUNDS)
        self.put_seconds = Histogram(SYNC_BOUNDS)  # how long acknowledgements had to be waited for
        self.group_messages = Histogram(GROUP_BOUNDS)  # messages that were acknowledged by one sync
        self._work = threading.Semaphore(0)  # released by the loop when there is something to sync
        self._is_idle = True  # set by the sync thread, cleared by the loop
        self._thread = threading.Thread(target=self._sync_loop, name="flaremq-sync", daemon=True)
        self._thread.start()

    def when_durable(self, end_offset: int, callback: DurableCallback, count: int = 1) -> None:
        """Call back once the log is durable up to an offset, or that failed or took too long. In append order.

        ``count`` messages wait for it.
        """
        if self._failure is not None:
            callback(PutMessageStatus.SERVICE_NOT_AVAILABLE)
            return
        waiting, group = self._waiting, self._group
        waiting.append((end_offset, self._loop.time(), callback, count))
        self.unacknowledged += count
        if self._expiry is None:
            self._expiry = self._loop.call_later(_EXPIRY_SECONDS, self._expire)
        if len(waiting) > 1:
            self._alone = 0
        elif group is not None and not self.waits_for_sync:
            self._alone += 1
            if self._alone > ALONE_APPENDS:
                self._grew_alone(end_offset, group)
                return
        self._grew()

    async def until_durable(self, end_offset: int) -> PutMessageStatus:
        """Wait until the log is durable up to an offset, or that failed or took too long."""
        if end_offset <= self._acknowledged():
            return PutMessageStatus.PUT_OK
        future: asyncio.Future[PutMessageStatus] = self._loop.create_future()

        def resolve(status: PutMessageStatus) -> None:
            if not future.done():
                future.set_result(status)

        self.when_durable(end_offset, resolve)
        return await future

    def appended(self) -> None:
        """Something was appended that nobody waits for: see that it is synced and dispatched in time."""
        if not self.acknowledges_later:
            self._dispatching.appended()
            if self.on_progress is not None:
                self._tell_progress()
            return
        self._grew()

    def _grew(self) -> None:
        """At the end of this turn of the loop: sync, or look whom the slaves let go on."""
        self._appends += 1
        if (self._is_idle or not self.waits_for_sync) and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._begin_sync)
        if self.on_progress is not None:
            self._tell_progress()

    def _grew_alone(self, end_offset: int, group: ReplicaGroup) -> None:
        """Slaves get the append at once, and only they can let it go on: who sends one message after the other does
        not wait for turns of the loop in which nothing else is gathered."""
        self._appends += 1
        if self.on_progress is not None and not self._is_progress_scheduled:
            try:
                self.on_progress()
            except Exception:  # the message is stored; whoever appended it must not hear that it is not
                _log.exception("while slaves were told of an append")
        is_settled = self._acknowledged() >= end_offset or group.is_unavailable(end_offset)
        if is_settled and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._begin_sync)

    def _tell_progress(self) -> None:
        """Let the slaves have what is new, all appends of this turn at once."""
        if not self._is_progress_scheduled:
            self._is_progress_scheduled = True
            self._loop.call_soon(self._progressed)

    def _progressed(self) -> None:
        self._is_progress_scheduled = False
        if self.on_progress is not None:
            self.on_progress()

    # Slaves

    def wait_for(self, group: ReplicaGroup | None) -> None:
        """From now on acknowledge what these slaves have too, and show nobody anything else; None: without slaves.

        Who waits for slaves that are waited for no longer is not told that all is well: this broker leads no more, and
        whether its successor has the message nobody here knows. For the same reason readers see no more than before.
        """
        if group is None and self._group is not None:
            self._answer_all(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        elif group is None:
            self._driver.confirm(None)
        self._group = group
        self._update_waiting()
        self._acknowledge()

    def group_changed(self) -> None:
        """Slaves came, went or acknowledged: look again who waits no longer."""
        if self._group is not None and not self._is_closed:
            self._acknowledge()

    @property
    def failure(self) -> StoreIOError | None:
        """What keeps everything from being acknowledged, for good."""
        return self._failure

    def refuses(self) -> bool:
        """Whether too few slaves keep up for anything to be stored. Ask before every append."""
        return self._group is not None and self._group.refusal(self._driver.appended) is not None

    def _update_waiting(self) -> None:
        self.has_group = self._group is not None
        self.acknowledges_later = self.waits_for_sync or self.has_group

    def _own(self) -> int:
        """The end of the log that counts here."""
        return self._driver.durable if self.waits_for_sync else self._driver.appended

    def _acknowledged(self) -> int:
        own = self._own()
        return own if self._group is None else self._group.confirmed(own)

    def _expire(self) -> None:
        """While anybody waits: a few times a second."""
        self.expire()
        waits = self._waiting and not self._is_closed
        self._expiry = self._loop.call_later(_EXPIRY_SECONDS, self._expire) if waits else None

    def expire(self) -> None:
        """Answer those that wait too long for a slow disk or for slaves; what they wait for may still happen."""
        now = self._loop.time()
        if self._group is not None:
            oldest = now - self.slave_timeout_seconds
            while self._waiting and self._waiting[0][1] < oldest:
                self._next_waiting()(PutMessageStatus.FLUSH_SLAVE_TIMEOUT)
        oldest = now - self.timeout_seconds
        while self._waiting and self._waiting[0][1] < oldest:
            self._next_waiting()(PutMessageStatus.FLUSH_DISK_TIMEOUT)

    async def change_flush_disk_type(self, name: str, run: Callable[..., Awaitable[None]]) -> None:
        """Go over to SYNC_FLUSH or ASYNC_FLUSH; everything acknowledged before is durable first."""
        if name not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise InvalidArgumentError(f"flushDiskType is SYNC_FLUSH or ASYNC_FLUSH, not {name!r}")
        async with self._flush_type_lock:
            sync_mode = name == "SYNC_FLUSH"
            if sync_mode == self.waits_for_sync:
                return
            # From here on appends wait for the disk, or no longer do. Those that wait are served by the flush.
            self.waits_for_sync = sync_mode
            self._update_waiting()
            self._dispatching.is_paused = sync_mode  # what readers see must be durable once they are kept to that
            try:
                await run(self._store.change_flush_disk_type, name)
            except StoreIOError as error:
                self._fail(error)
                raise
            finally:
                self.waits_for_sync = self._driver.sync_mode
                self._update_waiting()
                self._dispatching.is_paused = False
                self._work.release()
                self._acknowledge()

    def _begin_sync(self) -> None:
        """At the end of a turn: what was read in it is appended, and one sync serves all of it."""
        self._is_scheduled = False
        if not self.waits_for_sync:
            self._acknowledge()  # nothing waits for the disk here, but for slaves
            return
        if not self._is_idle or self._failure is not None:
            return  # the sync thread looks again before it sleeps
        if self._may_sync_here():
            self._sync_here()
        else:
            self._is_idle = False
            self._work.release()

    def _may_sync_here(self) -> bool:
        """Whether nobody misses the loop while it waits for the disk."""
        reads = self.reads.value
        others = reads - self._reads_before > self._appends
        self._reads_before, self._appends = reads, 0
        if others:
            self._short_syncs = 0
        driver = self._driver
        return (
            self._short_syncs >= _SHORT_SYNCS
            and self.waits_for_sync
            and driver.appended - driver.durable <= _SYNC_BYTES_MAX
            and not driver.is_syncing
            and not self._is_closed
        )

    def _sync_here(self) -> None:
        began = monotonic()
        try:
            self._driver.sync()
        except Exception as error:
            self._fail(self._failure_of(error))
            return
        self._synced(monotonic() - began)

    def _synced(self, seconds: float) -> None:
        """On the loop, after a sync."""
        self._short_syncs = self._short_syncs + 1 if seconds <= _SHORT_SECONDS else 0
        self.sync_seconds.observe(seconds)
        before = self.unacknowledged
        self._durable_grew()
        if before > self.unacknowledged:
            self.group_messages.observe(before - self.unacknowledged)

    def _durable_grew(self) -> None:
        self._acknowledge()
        if self.on_progress is not None:
            self.on_progress()  # the sync served a turn: nothing more to gather, and slaves need not wait for another

    def _acknowledge(self) -> None:
        """On the loop, after a sync or news of slaves: acknowledge what is as safe as asked, then show it."""
        acknowledged = self._acknowledged()
        waiting = self._waiting
        ok = PutMessageStatus.PUT_OK
        if waiting and waiting[0][0] <= acknowledged:
            before, since = self.unacknowledged, waiting[0][1]
            self.answers_alone = len(waiting) == 1
            try:
                while waiting and waiting[0][0] <= acknowledged:
                    self._next_waiting()(ok)
            finally:
                self.answers_alone = False
            # One look at the clock for all that were let go: none of them waited longer than the first.
            self.put_seconds.observe(self._loop.time() - since, before - self.unacknowledged)
        group = self._group
        if group is not None:
            self._driver.confirm(acknowledged)
            own = self._own()
            while waiting and waiting[0][0] <= own and group.is_unavailable(waiting[0][0]):
                self._next_waiting()(PutMessageStatus.SLAVE_NOT_AVAILABLE)
        self._dispatching.synced()

    def _fail(self, error: StoreIOError) -> None:
        self._failure = error
        _log.critical("nothing is acknowledged any more: %s", error)
        self._answer_all(PutMessageStatus.SERVICE_NOT_AVAILABLE)

    def _answer_all(self, status: PutMessageStatus) -> None:
        for _ in range(len(self._waiting)):
            self._next_waiting()(status)

    def _next_waiting(self) -> DurableCallback:
        _, _, callback, count = self._waiting.popleft()
        self.unacknowledged -= count
        return callback

    # The sync thread

    def _sync_loop(self) -> None:
        """Sync while there is something to sync, then sleep."""
        driver = self._driver
        reported = driver.durable
        while not self._is_closed:
            if not self.waits_for_sync:
                try:
                    seconds = driver.flush_step()
                except Exception:
                    _log.exception("a timed flush failed")
                    seconds = 1.0
                self._work.acquire(timeout=max(seconds, 0.01))
                continue
            if driver.durable >= driver.appended:
                if driver.durable > reported:  # a checkpoint or a flush synced meanwhile
                    reported = driver.durable
                    self._call_on_loop(self._durable_grew)
                self._is_idle = True
                if driver.durable >= driver.appended:  # asked again: an append may have seen us busy
                    self._work.acquire()
                continue
            began = monotonic()
            try:
                driver.sync()
            except Exception as error:
                self._call_on_loop(self._fail, self._failure_of(error))
                return
            reported = driver.durable
            self._call_on_loop(self._synced, monotonic() - began)

    def _failure_of(self, error: Exception) -> StoreIOError:
        if isinstance(error, StoreIOError):
            return error
        _log.error("a sync failed", exc_info=error)
        return StoreIOError("sync", self._store.path, OSError(error))

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            pass  # the loop has ended

    async def drain(self) -> None:
        """Wait for what is waiting, as long as a slow disk is waited for."""
        deadline = self._loop.time() + self.timeout_seconds
        while self._waiting and self._failure is None and self._loop.time() < deadline:
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        """Stop the sync thread; whoever still waits is answered that the service is not available."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        self._work.release()
        await self._loop.run_in_executor(None, self._thread.join)
        self._answer_all(PutMessageStatus.SERVICE_NOT_AVAILABLE)
