"""StoreLoop: the store as an event loop sees it. The one place that decides what runs where.

Appending is done on the loop, inline: it is a copy into mapped memory. ``durability`` syncs on a thread of its own and
calls back what waits for it; ``dispatching`` makes records readable, per batch; what may block goes to worker threads.
"""

from __future__ import annotations

from flaremq.broker.store_loop.dispatching import Dispatching
from flaremq.broker.store_loop.durability import Durability
from flaremq.broker.store_loop.put_status import not_enough_replicas
from flaremq.broker.store_loop.workers import Workers
from flaremq.message.stored_form import StoredForm
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus


class StoreLoop(Workers):
    """A driven MessageStore on an event loop. Make and use it on the loop; ``close`` it before the store."""

    def __init__(self, store: MessageStore, *, sync_timeout: float = 5.0) -> None:
        super().__init__()
        self.store = store
        self.driver = driver = store.driver()
        self.dispatching = Dispatching(store, driver)
        self.durability = Durability(store, driver, self.dispatching, timeout_seconds=sync_timeout)
        self.durability.slave_timeout_seconds = store.options.slave_timeout / 1000

    @property
    def waits_for_sync(self) -> bool:
        """Whether ``put`` returns only when the record is durable."""
        return self.durability.waits_for_sync

    async def put(self, form: StoredForm) -> PutResult:
        """Append a record and wait until it is as safe as the broker promises, unless the message does not ask for it:
        durable (SYNC_FLUSH), and held by slaves (SYNC_MASTER)."""
        if self.durability.refuses():
            return not_enough_replicas()
        return await self._stored(self.driver.append_form(form), form.wait_store_msg_ok)

    async def put_batch_body(
        self, topic: str, queue_id: int, body: bytes, *, born_timestamp: int, born_host: bytes, sys_flag: int
    ) -> PutResult:
        """Append the messages of a batch body as it came off the wire, all or none, and wait as :meth:`put` does."""
        if self.durability.refuses():
            return not_enough_replicas()
        result = self.driver.append_batch_body(
            topic, queue_id, body, born_timestamp=born_timestamp, born_host=born_host, sys_flag=sys_flag
        )
        return await self._stored(result, True)

    async def _stored(self, result: PutResult, wait: bool) -> PutResult:
        if not result.ok:
            return result
        self.dispatching.mark_urgent()  # retries, deliveries, outcomes: few, and clients may wait for them
        if not self.durability.acknowledges_later or not wait:
            self.durability.appended()
            return result
        status = await self.durability.until_durable(result.physical_offset + result.size)
        if status is not PutMessageStatus.PUT_OK:
            result.status = status
        return result

    async def change_flush_disk_type(self, name: str) -> None:
        """Go over to SYNC_FLUSH or ASYNC_FLUSH; everything acknowledged before is durable first."""
        await self.durability.change_flush_disk_type(name, self.run)

    def options_changed(self) -> None:
        """Look again at what may change while the broker runs."""
        self.store.options_changed()
        self.durability.timeout_seconds = self.store.options.sync_flush_timeout / 1000
        self.durability.slave_timeout_seconds = self.store.options.slave_timeout / 1000

    async def close(self) -> None:
        """Wait for what is waiting, stop the threads; the store stays open for its owner to close."""
        await self.durability.drain()
        self.dispatching.close()
        await self.durability.close()
        await self.close_workers()
