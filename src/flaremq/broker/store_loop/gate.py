"""StoreGate: the store as an event loop sees it. The one place that decides what runs where.

Appending is done on the loop, inline: it is a copy into mapped memory. Syncing blocks and has a thread of its own; one
sync serves everything appended meanwhile, and its end is told to the loop once. The loop then acknowledges what became
durable, shows it to readers (dispatch) and wakes long polls, all per batch. What may block goes to worker threads: what
clients ask for at any rate (cold pulls, queries) through ``run_cold``, everything the broker itself depends on through
``run``, so that saves and deliveries never queue behind thousands of cold pulls. Property filters have a thread of
their own (``run_filter``), and so do whole tables that a client asks for (``run_long``).

In SYNC_FLUSH nothing is acknowledged and nothing becomes readable before it is durable. After a failed sync nothing is
acknowledged any more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from flaremq.broker.filter.lane import FilterLane
from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.message.stored_form import StoredForm
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_GATHER_SECONDS = 0.01  # without anybody waiting, dispatch gathers what arrives in this time
_KERNELS_BYTES = 1 << 20  # after so many appended bytes the kernels are worth loading
_LARGE_BATCH_BYTES = 256 << 10  # a batch body of this size is not left to plain code
_NEVER = 1 << 62
_WORKERS = 4
_COLD_WORKERS = 4

DurableCallback = Callable[[PutMessageStatus], None]
ArrivalCallback = Callable[[set[tuple[str, int]]], None]


class StoreGate:
    """A driven MessageStore on an event loop. Make and use it on the loop; ``close`` it before the store."""

    def __init__(self, store: MessageStore, *, sync_timeout: float = 5.0) -> None:
        self.store = store
        self.driver = StoreDriver(store)
        self.on_arrival: list[ArrivalCallback] = []
        self.on_kernels: list[Callable[[], None]] = []  # called once the kernels are loaded
        self.eager = 0  # how many wait for arrivals anywhere: above zero dispatch follows durability at once
        self.awaited: dict[str, int] = {}  # how many wait for arrivals of a topic
        self._urgent = 0  # somebody waits for what was appended up to here
        self._loop = asyncio.get_running_loop()
        self._sync_mode = self.driver.sync_mode
        self._sync_timeout = sync_timeout
        self._waiting: deque[tuple[int, float, DurableCallback]] = deque()  # (end of record, since, whom to tell)
        self._dispatch_handle: asyncio.Handle | None = None
        self._dispatch_held = False  # while the flush type changes
        self._flush_type_lock = asyncio.Lock()  # one change at a time
        self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="flaremq-store")
        self._cold_executor = ThreadPoolExecutor(_COLD_WORKERS, thread_name_prefix="flaremq-cold")
        self._long_executor = ThreadPoolExecutor(1, thread_name_prefix="flaremq-long")
        self._filter_lane = FilterLane()
        self._closed = False
        self._failure: StoreIOError | None = None
        self._kernels_from = self.driver.appended + _KERNELS_BYTES
        self._work = threading.Semaphore(0)  # how the loop tells the sync thread that there is something to sync
        self._sync_idle = True  # set by the sync thread, cleared by the loop
        self._thread = threading.Thread(target=self._sync_loop, name="flaremq-sync", daemon=True)
        self._thread.start()

    # Writing

    async def put(self, form: StoredForm) -> PutResult:
        """Append a record and wait until it is durable (SYNC_FLUSH, unless the message does not ask for it)."""
        result = self.driver.append_form(form)
        return await self._settle(result, form.wait_store_msg_ok)

    async def put_batch_body(
        self, topic: str, queue_id: int, body: bytes, *, born_timestamp: int, born_host: bytes, sys_flag: int
    ) -> PutResult:
        """Append the messages of a batch body as it came off the wire, all or none, and wait until durable."""
        await self.make_ready(len(body))
        result = self.driver.append_batch_body(
            topic, queue_id, body, born_timestamp=born_timestamp, born_host=born_host, sys_flag=sys_flag
        )
        return await self._settle(result, True)

    async def make_ready(self, size_bytes: int) -> None:
        """Load the kernels first if a batch body of this size comes before they were worth loading."""
        if size_bytes >= _LARGE_BATCH_BYTES and self._kernels_from < _NEVER:
            # Thousands of small messages would keep the loop busy for long in plain code.
            self._kernels_from = _NEVER
            await self.run(self._load_kernels)

    async def _settle(self, result: PutResult, wait: bool) -> PutResult:
        if not result.ok:
            return result
        self._urgent = self.driver.appended  # retries, deliveries, outcomes: few, and somebody may wait for them
        if not self._sync_mode or not wait:
            self.appended()
            return result
        status = await self.until_durable(result.physical_offset + result.size)
        if status is not PutMessageStatus.PUT_OK:
            result.status = status
        return result

    async def until_durable(self, end_offset: int) -> PutMessageStatus:
        """Wait until the log is durable up to an offset, or that failed or took too long."""
        if end_offset <= self.driver.durable:
            return PutMessageStatus.PUT_OK
        future: asyncio.Future[PutMessageStatus] = self._loop.create_future()

        def settled(status: PutMessageStatus) -> None:
            if not future.done():
                future.set_result(status)

        self.when_durable(end_offset, settled)
        return await future

    @property
    def waits_for_sync(self) -> bool:
        """Whether an append must be durable before it is acknowledged."""
        return self._sync_mode

    def when_durable(self, end_offset: int, callback: DurableCallback) -> None:
        """Call back once the log is durable up to an offset, or that failed or took too long. In append order."""
        if self._failure is not None:
            callback(PutMessageStatus.SERVICE_NOT_AVAILABLE)
            return
        self._waiting.append((end_offset, self._loop.time(), callback))
        if self._sync_idle:
            self._sync_idle = False
            self._work.release()

    def note_awaited(self, topic: str, end_offset: int) -> None:
        """A message of a topic was appended: if somebody waits for one, it is not to be gathered with others."""
        if topic in self.awaited:
            self._urgent = end_offset

    def appended(self) -> None:
        """Something was appended that nobody waits for: see that it is dispatched (and synced) in time."""
        if self._sync_mode:
            if self._sync_idle:
                self._sync_idle = False
                self._work.release()
        elif self._dispatch_handle is None:
            self._schedule_dispatch()
        elif self._urgent >= self.driver.appended:
            self.hurry()

    async def change_flush_disk_type(self, name: str) -> None:
        """Go over to SYNC_FLUSH or ASYNC_FLUSH; everything acknowledged before is durable first."""
        if name not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise InvalidArgumentError(f"flushDiskType is SYNC_FLUSH or ASYNC_FLUSH, not {name!r}")
        async with self._flush_type_lock:
            sync_mode = name == "SYNC_FLUSH"
            if sync_mode == self._sync_mode:
                return
            # From here on appends wait for the disk, or no longer do. Those that wait are served by the flush.
            self._sync_mode = sync_mode
            self._dispatch_held = sync_mode  # what is shown must be durable once readers are kept to that
            try:
                await self.run(self.driver.change_flush_disk_type, name)
            except StoreIOError as error:
                self._failed(error)
                raise
            finally:
                self._sync_mode = self.driver.sync_mode
                self._dispatch_held = False
                self._work.release()
                self._synced()

    def options_changed(self) -> None:
        """Look again at what may change while the broker runs."""
        self.store.options_changed()
        self._sync_timeout = self.store.options.sync_flush_timeout / 1000

    # Durability

    def _sync_loop(self) -> None:
        """The sync thread: sync while there is something to sync, then sleep."""
        driver, loop = self.driver, self._loop
        told = driver.durable
        while not self._closed:
            if self._sync_mode:
                if driver.durable >= driver.appended:
                    if driver.durable > told:  # somebody else synced: a checkpoint, a flush
                        told = driver.durable
                        self._tell(loop, self._synced)
                    self._sync_idle = True
                    if driver.durable >= driver.appended:  # asked again: an append may have seen us busy
                        self._work.acquire()
                    continue
                try:
                    driver.sync()
                except StoreIOError as error:
                    self._tell(loop, self._failed, error)
                    return
                except Exception as error:
                    _log.exception("the sync thread failed")
                    self._tell(loop, self._failed, StoreIOError("sync", self.store.path, OSError(str(error))))
                    return
                told = driver.durable
                self._tell(loop, self._synced)
            else:
                try:
                    seconds = driver.flush_step()
                except Exception:
                    _log.exception("a timed flush failed")
                    seconds = 1.0
                self._work.acquire(timeout=max(seconds, 0.01))

    @staticmethod
    def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object) -> None:
        try:
            loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            pass  # the loop has ended: nobody is left to tell

    def _synced(self) -> None:
        """On the loop, after a sync: acknowledge, then show."""
        durable = self.driver.durable
        waiting = self._waiting
        ok = PutMessageStatus.PUT_OK
        while waiting and waiting[0][0] <= durable:
            waiting.popleft()[2](ok)
        if self.driver.undispatched > 0:
            if self._dispatch_handle is None:
                self._schedule_dispatch()
            elif self._urgent > self.store.dispatched_offset:
                self.hurry()

    def _failed(self, error: StoreIOError) -> None:
        self._failure = error
        _log.critical("nothing is acknowledged any more: %s", error)
        waiting, self._waiting = self._waiting, deque()
        for _, _, callback in waiting:
            callback(PutMessageStatus.SERVICE_NOT_AVAILABLE)

    def sweep(self) -> None:
        """Tell those who wait too long for a slow disk; their message may still become durable."""
        oldest = self._loop.time() - self._sync_timeout
        while self._waiting and self._waiting[0][1] < oldest:
            self._waiting.popleft()[2](PutMessageStatus.FLUSH_DISK_TIMEOUT)

    @property
    def unacknowledged(self) -> int:
        """Appends that wait for a sync."""
        return len(self._waiting)

    # Dispatch

    def await_topic(self, topic: str) -> None:
        """Somebody waits for arrivals of a topic: they, and what is on its way already, are shown at once."""
        self.awaited[topic] = self.awaited.get(topic, 0) + 1
        self._urgent = self.driver.appended
        self.hurry()

    def forget_topic(self, topic: str) -> None:
        """One who waited for arrivals of a topic does so no more."""
        left = self.awaited.get(topic, 0) - 1
        if left > 0:
            self.awaited[topic] = left
        else:
            self.awaited.pop(topic, None)

    def _schedule_dispatch(self) -> None:
        if self.eager or self._urgent > self.store.dispatched_offset:
            self._dispatch_handle = self._loop.call_soon(self._dispatch)
        else:
            self._dispatch_handle = self._loop.call_later(_GATHER_SECONDS, self._dispatch)

    def hurry(self) -> None:
        """Somebody began to wait for arrivals: what is on its way is shown at once."""
        if self._dispatch_handle is not None and self.driver.undispatched > 0:
            self._dispatch_handle.cancel()
            self._dispatch_handle = self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatch_handle = None
        if self._closed:
            return
        self.catch_up()
        if self.driver.appended >= self._kernels_from:
            self._kernels_from = _NEVER
            self._executor.submit(self._load_kernels)
        if self.driver.undispatched > 0 and not self._dispatch_held:
            # A failed dispatch is tried again, less and less eagerly than the next append would.
            pause = 1.0 if self.driver.has_dispatch_error else 0.0
            self._dispatch_handle = self._loop.call_later(pause, self._dispatch)

    def catch_up(self) -> None:
        """Show what is readable and tell those who wait for it."""
        if self.driver.undispatched <= 0 or self._dispatch_held:
            return
        touched = self.driver.dispatch()
        if touched:
            for callback in self.on_arrival:
                try:
                    callback(touched)
                except Exception:
                    _log.exception("while waking those who wait for messages")

    def _load_kernels(self) -> None:
        """On a worker thread: half a second of importing, and the compiled ways are open."""
        try:
            import flaremq.broker.ingest.ingest
            import flaremq.storage.dispatch.bulk
            import flaremq.storage.get.views
            import flaremq.storage.put.columns  # noqa: F401
        except Exception:
            _log.exception("the kernels cannot be loaded; everything goes the plain way")
            return
        self._tell(self._loop, self._kernels_loaded)

    def _kernels_loaded(self) -> None:
        for callback in self.on_kernels:
            callback()

    # Work that may block

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run blocking work of the broker itself on a worker thread: saving state, delivering."""
        return await self._run_in(self._executor, function, *arguments)

    async def run_cold(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a read that a client asked for on a worker thread; thousands may wait, for each other only."""
        return await self._run_in(self._cold_executor, function, *arguments)

    async def run_long(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a long computation that a client asked for, such as rendering a whole table; one at a time."""
        return await self._run_in(self._long_executor, function, *arguments)

    async def run_filter(self, group: str, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a read that evaluates a property filter of a group; groups take turns."""
        return await self._filter_lane.run(group, function, *arguments)

    async def _run_in(self, executor: ThreadPoolExecutor, function: Callable[..., _T], *arguments: Any) -> _T:
        if self._closed:
            raise UnavailableError("the store is closing")
        return await self._loop.run_in_executor(executor, function, *arguments)

    async def close(self) -> None:
        """Wait for what is waiting, stop the sync thread; the store stays open for its owner to close."""
        deadline = self._loop.time() + self._sync_timeout
        while self._waiting and self._failure is None and self._loop.time() < deadline:
            await asyncio.sleep(0.001)
        self._closed = True
        if self._dispatch_handle is not None:
            self._dispatch_handle.cancel()
        self._work.release()
        await self._loop.run_in_executor(None, self._thread.join)
        await self._loop.run_in_executor(None, self._executor.shutdown)
        await self._loop.run_in_executor(None, self._cold_executor.shutdown)
        await self._loop.run_in_executor(None, self._long_executor.shutdown)
        await self._filter_lane.close()
        for _, _, callback in self._waiting:
            callback(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        self._waiting.clear()
