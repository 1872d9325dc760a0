"""Consumption: the queues a consumer has at present, each with a loop that pulls from it.

Who has which queue is decided elsewhere (rebalancing, or the application). Here queues are taken up and let go, their
messages brought in and those that failed sent back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from flaremq.client.consumer.delivery import Delivery
from flaremq.client.consumer.offset_store import OffsetStore
from flaremq.client.consumer.process_queue import ProcessQueue
from flaremq.client.consumer.pulling import PullApi, PullReply, PullStatus
from flaremq.client.consumer.queue_locking import LOST_AFTER, QueueLocking
from flaremq.client.consumer.received import ReceivedMessage, read_messages, restore_topics
from flaremq.client.consumer.send_back import SendBack
from flaremq.client.errors import queue_name
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ConsumerOptions
from flaremq.errors import FlareMQError, ReplyError, UnavailableError
from flaremq.message.topics import is_retry_topic
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import ResponseCode

_log = logging.getLogger(__name__)

_AFTER_FAILURE: Final = 1.0  # seconds until the next pull
_AFTER_FLOW_CONTROL: Final = 0.02
_LOCK_TRIES: Final = 30  # then the regular renewal goes on
_REDELIVER_AFTER: Final = 5.0  # seconds until a message that no broker takes back is delivered here again
_UNKNOWN_HERE: Final = frozenset(  # the broker does not know this consumer, or not its present subscription
    (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST, ResponseCode.FILTER_DATA_NOT_EXIST,
     ResponseCode.FILTER_DATA_NOT_LATEST)
)  # fmt: skip


class Consumption:
    """The queues in use. Event loop thread only."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        options: ConsumerOptions,
        offsets: OffsetStore,
        *,
        is_orderly: bool,
        is_broadcasting: bool,
        is_subscription_sent: bool,
    ) -> None:
        self._instance = instance
        self._options = options
        self._offsets = offsets
        self.is_orderly = is_orderly
        self.is_broadcasting = is_broadcasting
        self._is_subscription_sent = is_subscription_sent
        self._now = instance.clock.monotonic
        self._pull_api = PullApi(instance, group)
        self._send_back = SendBack(instance, group, options.max_reconsume_times)
        self._sending_back: set[asyncio.Task[None]] = set()
        self.locks = QueueLocking(instance, group)
        self.delivery = Delivery(self._failed, self._now, is_orderly=is_orderly)
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self._leaving: dict[MessageQueue, ProcessQueue] = {}
        instance.transport.on_close.append(self._lost)

    def _lost(self, address: str) -> None:
        """The connection to a server is gone. A broker that crashed may have forgotten what it was told last, and who
        has which queue: offsets are told again, and where order counts nothing is handed out before the lock is
        renewed."""
        lost = [held for held in self.queues.values() if self._master_of(held) == address]
        for process_queue in lost:
            process_queue.reported_offset = -1
            if self.is_orderly:
                process_queue.locked_until = 0.0
        if lost and self.is_orderly and self._instance.is_running:
            self._instance.spawn(self._lock_again(lost))

    def _master_of(self, process_queue: ProcessQueue) -> str | None:
        try:
            return self._instance.routes.master(process_queue.queue.broker_name)
        except UnavailableError:
            return None

    async def _lock_again(self, lost: list[ProcessQueue]) -> None:
        """Until the broker is back and has said whose the queues are; the regular renewal would take its time."""
        for _ in range(_LOCK_TRIES):
            await asyncio.sleep(_AFTER_FAILURE)
            waiting = [held for held in lost if not held.is_dropped and held.locked_until <= self._now()]
            if not waiting:
                return
            await self.locks.renew(waiting)
            for process_queue in waiting:
                self.delivery.offer(process_queue)

    # Taking up and letting go

    def take_up(self, queue: MessageQueue, subscription: SubscriptionData, offset: int) -> ProcessQueue:
        """Begin to pull from a queue; an orderly consumer has locked it."""
        process_queue = ProcessQueue(queue, subscription, offset, self._options, self.delivery)
        if self.is_orderly:
            process_queue.locked_until = self._now() + LOST_AFTER
        self.queues[queue] = process_queue
        process_queue.pull_task = self._instance.spawn(self._pull_loop(process_queue))
        return process_queue

    async def let_go(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling from queues, tell how far they got, let others have them."""
        for queue in queues:
            process_queue = self.queues.pop(queue, None)
            if process_queue is None:
                continue
            if self.is_orderly and process_queue.in_hand:
                # Its message is being worked on: the next owner must not overtake it.
                process_queue.is_paused = True
                self._leaving[queue] = process_queue
                self._instance.spawn(self._release_when_idle(process_queue))
            else:
                await self._release(process_queue)

    async def _release_when_idle(self, process_queue: ProcessQueue) -> None:
        while process_queue.in_hand and process_queue.locked_until > self._now():
            await asyncio.sleep(0.05)
        if self._leaving.pop(process_queue.queue, None) is not None:
            await self._release(process_queue)

    def is_leaving(self, queue: MessageQueue) -> bool:
        """Whether a queue was let go but a message of it is still being worked on."""
        return queue in self._leaving

    async def _release(self, process_queue: ProcessQueue) -> None:
        try:
            await self._offsets.save((process_queue,))
        except FlareMQError as error:
            _log.warning("the offset of %s was not saved: %s", queue_name(process_queue.queue), error)
        process_queue.drop()
        if self.is_orderly:
            await self.locks.unlock((process_queue.queue,))

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Go on in a queue from another offset. Messages of it in some hand no longer count."""
        old = self.queues.get(queue)
        if old is None:
            return
        old.drop()
        new = self.take_up(queue, old.subscription, offset)
        new.locked_until = old.locked_until
        new.is_paused = old.is_paused

    # Pulling

    async def _pull_loop(self, process_queue: ProcessQueue) -> None:
        while not process_queue.is_dropped:
            if not process_queue.has_room:
                await process_queue.wait_for_room()
                continue
            try:
                reply = await self._pull(process_queue)
                if not await self._take_in(process_queue, reply):
                    return
            except ReplyError as error:
                await self._recover(process_queue, error)
            except FlareMQError as error:
                _report(process_queue, error)
                if isinstance(error, UnavailableError):
                    await self._look_for_route(process_queue.queue.topic)
                await asyncio.sleep(_AFTER_FAILURE)
            except Exception:
                _log.exception("%s: a pull failed", queue_name(process_queue.queue))
                await asyncio.sleep(_AFTER_FAILURE)

    async def _pull(self, process_queue: ProcessQueue) -> PullReply:
        queue, options = process_queue.queue, self._options
        routes = self._instance.routes
        address = routes.reader(queue.broker_name, process_queue.broker_id)
        takes_offsets = process_queue.broker_id == 0 and routes.has_master(queue.broker_name)
        if not self._instance.heartbeats.is_known_at(address):
            await self._instance.heartbeats.ensure(address)
        commit_offset = -1 if self.is_broadcasting else process_queue.commit_offset
        if commit_offset == process_queue.reported_offset and address == process_queue.reported_to:
            commit_offset = -1
        process_queue.last_pull = self._now()
        reply = await self._pull_api.pull(
            queue,
            process_queue.next_offset,
            subscription=process_queue.subscription,
            count_max=options.pull_batch_size,
            hold_ms=options.broker_suspend_max_time_millis,
            timeout=options.consumer_timeout_millis_when_suspend / 1000,
            broker_id=process_queue.broker_id,
            commit_offset=commit_offset,
            is_subscription_sent=self._is_subscription_sent,
        )
        if commit_offset >= 0 and takes_offsets:
            process_queue.reported_offset, process_queue.reported_to = commit_offset, address
        return reply

    async def _take_in(self, process_queue: ProcessQueue, reply: PullReply) -> bool:
        """Use the answer to a pull; False if this loop is to end."""
        if process_queue.is_dropped:
            return False
        process_queue.broker_id = reply.broker_id
        process_queue.last_failure = ""
        if reply.status is PullStatus.OFFSET_ILLEGAL:
            queue = process_queue.queue
            _log.info("%s moves from offset %d to %d", queue_name(queue), process_queue.next_offset, reply.next_offset)
            if not self.is_broadcasting:
                await self._offsets.save_offset(queue, reply.next_offset)
            self.move(queue, reply.next_offset)
            return False
        if reply.status is not PullStatus.FOUND:
            process_queue.next_offset = reply.next_offset
            return True
        messages = read_messages(reply.body, process_queue.queue, process_queue)
        if is_retry_topic(process_queue.queue.topic):
            restore_topics(messages)
        tags = process_queue.subscription.tags_set
        if tags:
            messages = [message for message in messages if message.tags in tags]
        process_queue.add(messages, reply.next_offset)
        self.delivery.offer(process_queue)
        return True

    async def _recover(self, process_queue: ProcessQueue, error: ReplyError) -> None:
        """Wait for as long as a refusal asks for."""
        if error.code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(_AFTER_FLOW_CONTROL)
            return
        if error.code in _UNKNOWN_HERE:
            try:
                await self._instance.heartbeats.send(error.address)
            except FlareMQError as failure:
                _log.warning("no heartbeat to %s: %s", error.address, failure)
        else:
            _report(process_queue, error)
        await asyncio.sleep(_AFTER_FAILURE)

    async def _look_for_route(self, topic: str) -> None:
        """The broker may have moved."""
        try:
            await self._instance.routes.refresh(topic)
        except FlareMQError as error:
            _log.debug("the route of %s is not known: %s", topic, error)

    # Failed messages

    def _failed(self, message: ReceivedMessage) -> asyncio.Task[None] | None:
        process_queue = message.process_queue
        if process_queue is None or process_queue.is_dropped:
            return None
        if self.is_broadcasting:
            _log.warning("message %s failed; a broadcasting consumer has no retry", message.message_id)
            process_queue.finish(message)
            self.delivery.offer(process_queue)
        elif self.is_orderly and not self._is_exhausted(message):
            pause = self._options.suspend_current_queue_time_millis / 1000
            process_queue.suspended_until = self._now() + pause
            self.delivery.give_back(message)
            asyncio.get_running_loop().call_later(pause, self._resume, process_queue)
        else:
            task = self._instance.spawn(self._return(message, process_queue))
            self._sending_back.add(task)
            task.add_done_callback(self._sending_back.discard)
            return task
        return None

    def _resume(self, process_queue: ProcessQueue) -> None:
        """The pause after a failure is over: a timer decides that, which may ring a moment before the clock says so."""
        process_queue.suspended_until = 0.0
        self.delivery.offer(process_queue)

    def _is_exhausted(self, message: ReceivedMessage) -> bool:
        """Whether an orderly consumer has tried a message often enough, or the application gave it up."""
        if message.retry_level is not None and message.retry_level < 0:
            return True
        retries_max = self._options.max_reconsume_times
        return 0 <= retries_max <= message.times_here

    async def _return(self, message: ReceivedMessage, process_queue: ProcessQueue) -> None:
        level = -1 if self.is_orderly else message.retry_level or 0
        try:
            await self._send_back.send(message, level)
        except FlareMQError as error:
            _log.warning("message %s could not be sent back, it is delivered here again: %s", message.message_id, error)
            self.delivery.give_back(message)
            asyncio.get_running_loop().call_later(_REDELIVER_AFTER, self.delivery.offer, process_queue)
            return
        process_queue.finish(message)
        self.delivery.offer(process_queue)

    def expire(self) -> None:
        """Give messages back that have been in a hand for too long; where order counts, there is no too long."""
        if self.is_orderly or self.is_broadcasting:
            return
        now = self._now()
        for iterator in self.delivery.iterators:
            if not iterator.in_hand:
                iterator.last_seen = None
            elif iterator.last_seen is not iterator.in_hand[0]:
                iterator.in_hand_since, iterator.last_seen = now, iterator.in_hand[0]
            elif now - iterator.in_hand_since > self._options.consume_timeout * 60:
                for message in iterator.in_hand:
                    message.retry(3)

    # Progress

    async def save(self) -> None:
        """Report how far every queue has come."""
        await self._offsets.save(list(self.queues.values()))

    async def renew_locks(self) -> None:
        if self.queues:
            await self.locks.renew(self.queues.values())
            for process_queue in self.queues.values():
                self.delivery.offer(process_queue)

    async def finish(self) -> None:
        """Wait until failed messages are back, then let go of everything."""
        await asyncio.sleep(0)  # a loop that was just left is noted in this turn
        if self._sending_back:
            await asyncio.wait(list(self._sending_back))
        held = [*self.queues.values(), *self._leaving.values()]
        self.queues.clear()
        self._leaving.clear()
        for process_queue in held:
            await self._release(process_queue)


def _report(process_queue: ProcessQueue, error: FlareMQError) -> None:
    text = str(error)
    if text != process_queue.last_failure:
        process_queue.last_failure = text
        _log.warning("%s: %s", queue_name(process_queue.queue), text)
