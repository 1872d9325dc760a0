"""Consumer: receives messages."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from flaremq.client.arguments import check_group, check_queue, check_whole_number
from flaremq.client.consumer.consumption import Consumption
from flaremq.client.consumer.delivery import BatchDeliveries, Deliveries, MessageExchange, Receiver
from flaremq.client.consumer.offset_store import NO_OFFSET, BrokerOffsets, LocalOffsets, OffsetStore, local_offsets_path
from flaremq.client.consumer.process_queue import ProcessQueue
from flaremq.client.consumer.pulling import PullApi, PullResult
from flaremq.client.consumer.queue_locking import RENEW_MS
from flaremq.client.consumer.queue_offset import queue_offset
from flaremq.client.consumer.rebalancing import FIRST, LAST, Rebalancer
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.consumer.requests import ConsumerRequests
from flaremq.client.consumer.subscription import (
    Expression,
    Subscription,
    parse_subscription,
    subscription_data,
)
from flaremq.client.credentials import Credentials
from flaremq.client.errors import queue_name
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ConsumerOptions
from flaremq.clock import Clock
from flaremq.errors import InvalidArgumentError
from flaremq.message.tags import ALL_TAGS, SQL92
from flaremq.message.topics import retry_topic
from flaremq.protocol.bodies.client import CheckClientRequestBody, ConsumerData, SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode

_log = logging.getLogger(__name__)

_EXPIRE_MS: Final = 60_000
Handler = Callable[[ReceivedMessage], Awaitable[object] | object]


class Consumer:
    """Receives the messages of some topics, shared with the other consumers of its group.

    Use it inside ``async with``, or call :meth:`start` and :meth:`close`; from one event loop::

        async with Consumer("127.0.0.1:9876", group="billing", subscribe={"orders": "paid || shipped"}) as consumer:
            async for message in consumer:
                ...

    A message counts as done when the loop asks for the next one. If the body raises, or calls ``message.retry()``, it
    comes again later, and in the end goes to the dead letters. Several loops may run at the same time.

    ``orderly`` delivers each queue's messages one after the other. ``broadcasting`` gives every consumer all messages.
    ``start_from`` says where a group begins that never read the topic: ``"last"``, ``"first"`` or at a time. ``"last"``
    is RocketMQ's: a queue so young that its first message is still in memory is read from the beginning.
    Without ``subscribe``, queues are chosen by :meth:`assign`.
    """

    _entered_by = "async with"

    # Many parameters on purpose: the settled public surface, all but two by keyword.
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        subscribe: Subscription | None = None,
        orderly: bool = False,
        broadcasting: bool = False,
        start_from: str | int | datetime = LAST,
        options: ConsumerOptions | None = None,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_group(group)
        self.group = group
        self.options = (options or ConsumerOptions()).signed_by(credentials)
        self._expressions = parse_subscription(subscribe)
        self._is_orderly = orderly
        self._is_broadcasting = broadcasting
        self._start_from = _start(start_from)
        self._instance = ClientInstance(name_servers, self.options, clock=clock, entered_by=self._entered_by)
        self._offsets: OffsetStore
        if broadcasting:
            path = local_offsets_path(self.options.offset_store_path, self.options.instance_name, group)
            self._offsets = LocalOffsets(path)
        else:
            self._offsets = BrokerOffsets(self._instance, group)
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._consumption: Consumption | None = None
        self._rebalancer: Rebalancer | None = None
        self._pull_api = PullApi(self._instance, group)
        self._receiver: Receiver | None = None  # that of receive()
        self._receivers: list[Receiver] = []  # and those of threads

    @property
    def client_id(self) -> str:
        """The name brokers know this consumer by; empty before it is started."""
        return self._instance.client_id

    # Life

    async def start(self) -> None:
        """Make the consumer known and take up its queues.

        Raises if a topic does not exist, a filter is refused, or no broker lets this account consume.
        """
        await self._instance.start()
        try:
            await self._begin()
        except BaseException:
            await self._instance.stop()
            raise

    async def _begin(self) -> None:
        instance = self._instance
        version = instance.clock.now_ms()
        self._subscriptions.update(
            {topic: subscription_data(topic, expression, version) for topic, expression in self._expressions.items()}
        )
        is_managed = bool(self._expressions)
        self._consumption = consumption = Consumption(
            instance,
            self.group,
            self.options,
            self._offsets,
            is_orderly=self._is_orderly,
            is_broadcasting=self._is_broadcasting,
            is_subscription_sent=not is_managed,
        )
        self._rebalancer = rebalancer = Rebalancer(
            instance,
            self.group,
            self.options,
            consumption,
            self._offsets,
            self._subscriptions,
            self._start_from,
        )
        ConsumerRequests(
            instance, self.group, consumption, rebalancer, self._offsets, self._subscriptions, self._description
        )
        for topic in self._expressions:
            await instance.routes.find(topic)
        await self._check_filters()
        if is_managed:
            if not self._is_broadcasting:
                name = retry_topic(self.group)
                self._subscriptions[name] = subscription_data(name, ALL_TAGS, version)
            instance.heartbeats.consumers[self.group] = self._describe
            refusal = await instance.heartbeats.send_all()
            if refusal is not None:  # nothing would ever come
                raise refusal
            instance.routes.on_change.append(lambda _: rebalancer.soon())
            if not await rebalancer.rebalance():
                rebalancer.soon()
            instance.spawn(rebalancer.run())
        if self._is_orderly:
            instance.every(RENEW_MS, consumption.renew_locks)
        instance.every(self.options.persist_consumer_offset_interval, consumption.save)
        instance.every(_EXPIRE_MS, self._expire)

    async def _check_filters(self) -> None:
        """Let a broker judge SQL expressions before anything depends on them."""
        for topic, subscription in self._subscriptions.items():
            if subscription.expression_type != SQL92:
                continue
            body = CheckClientRequestBody(client_id=self.client_id, group=self.group, subscription_data=subscription)
            route = await self._instance.routes.find(topic)
            for addresses in route.addresses.values():
                if 0 in addresses:
                    await self._instance.transport.call(
                        addresses[0],
                        RequestCode.CHECK_CLIENT_CONFIG,
                        body=body.to_json(),
                        what=f"the filter {subscription.sub_string!r} on topic {topic!r}",
                    )

    async def close(self) -> None:
        """Stop receiving, report how far the group has come, take leave."""
        consumption, rebalancer = self._consumption, self._rebalancer
        if consumption is not None and rebalancer is not None and self._instance.is_running:
            for receiver in self._receivers:
                receiver.settle_all()
            consumption.delivery.close()
            await rebalancer.stop()
            await consumption.finish()
        await self._instance.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, Exception) and self._consumption is not None:
            delivery = self._consumption.delivery
            for loop in list(delivery.iterators):
                delivery.abandon(loop.in_hand)
        await self.close()

    # Receiving

    def __aiter__(self) -> Deliveries:
        return Deliveries(self._running().delivery)

    def batches(self, count_max: int = 32) -> BatchDeliveries:
        """A loop over lists of up to ``count_max`` messages, each list done when the next one is asked for."""
        check_whole_number(count_max, "the size of a batch")
        if count_max < 1:
            raise InvalidArgumentError(f"a batch of {count_max} messages is none")
        return BatchDeliveries(self._running().delivery, count_max)

    async def receive(self, timeout: float | None = None) -> ReceivedMessage | None:
        """The next message; None if none comes within ``timeout`` seconds, or the consumer is closed.

        As in a loop, a message is done when the next one is asked for, or the consumer is closed without an error;
        ``message.ack()`` and ``message.retry()`` decide at once. For one caller at a time: several tasks have loops of
        their own, or :meth:`run`.
        """
        self._running()
        if self._receiver is None:
            self._receiver = self.receiver()
        return await self._receiver.receive(timeout)

    def receiver(self) -> Receiver:
        """A :meth:`receive` of its own, for another thread: made and used on this event loop on its behalf."""
        receiver = Receiver(self._running().delivery)
        self._receivers.append(receiver)
        return receiver

    def exchange(self) -> MessageExchange:
        """A loop for another thread: made and used on this event loop on its behalf."""
        return MessageExchange(self._running().delivery)

    async def run(self, handler: Handler, *, concurrency: int = 20) -> None:
        """Call ``handler`` for each message, so many at a time, until the consumer is closed.

        A handler that raises has its message come again later. One that is no coroutine runs on a thread.
        """
        if concurrency < 1:
            raise InvalidArgumentError(f"a concurrency of {concurrency} handles no message")
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004  # asks whether it is a coroutine, not whether it exists
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._work(handler, is_async=is_async))

    async def _work(self, handler: Handler, *, is_async: bool) -> None:
        async for message in self:
            try:
                outcome = handler(message) if is_async else await asyncio.to_thread(handler, message)
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception:
                _log.exception("the handler failed on message %s of topic %s", message.message_id, message.topic)
                message.retry()

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: Expression = ALL_TAGS,
        wait: float = 0.0,
    ) -> PullResult:
        """Read messages of one queue from an offset on. Nothing is acknowledged by it.

        ``wait`` seconds may pass until a message comes, if there is none yet.
        """
        self._instance.check_running()
        check_queue(queue)
        check_whole_number(offset, "an offset")
        if max_count < 1 or offset < 0:
            raise InvalidArgumentError(f"cannot pull {max_count} messages from offset {offset}")
        await self._instance.routes.find(queue.topic)
        hold_ms = int(wait * 1000)
        timeout = self.options.timeout + wait * 2 + (10.0 if hold_ms else 0.0)  # brokers look every 5 s only
        return await self._pull_api.read(
            queue, offset, expression, count_max=max_count, hold_ms=hold_ms, timeout=timeout
        )

    # Queues and offsets

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read."""
        self._instance.check_running()
        return sorted((await self._instance.routes.find(topic)).read_queues)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer has at present."""
        return sorted(self._running().queues)

    async def assign(self, queues: Iterable[MessageQueue], *, expression: Expression = ALL_TAGS) -> None:
        """Take up exactly these queues; for consumers without ``subscribe``. Offsets are those of the group."""
        consumption, rebalancer = self._running(), self._rebalancer
        if self._expressions:
            raise InvalidArgumentError("this consumer subscribes to topics: its queues are assigned by the group")
        assert rebalancer is not None
        wanted = list(dict.fromkeys(queues))
        for topic in {queue.topic for queue in wanted}:
            known = set((await self._instance.routes.find(topic)).read_queues)
            missing = [queue for queue in wanted if queue.topic == topic and queue not in known]
            if missing:
                raise InvalidArgumentError(f"{queue_name(missing[0])} does not exist, or cannot be read")
        await consumption.let_go(set(consumption.queues) - set(wanted))
        for queue in wanted:
            if queue not in consumption.queues:
                subscription = subscription_data(queue.topic, expression, self._instance.clock.now_ms())
                consumption.take_up(queue, subscription, await rebalancer.start_offset(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on in a queue from this offset; messages of it that were not handed out yet are forgotten."""
        check_queue(queue)
        check_whole_number(offset, "an offset")
        consumption = self._running()
        if queue not in consumption.queues:
            raise InvalidArgumentError(f"{queue_name(queue)} does not belong to this consumer")
        if offset < 0:
            raise InvalidArgumentError(f"offset {offset} in {queue_name(queue)} does not exist")
        consumption.move(queue, offset)

    def position(self, queue: MessageQueue) -> int:
        """The offset below which every message of a queue is done."""
        check_queue(queue)
        held = self._running().queues.get(queue)
        if held is None:
            raise InvalidArgumentError(f"{queue_name(queue)} does not belong to this consumer")
        return held.commit_offset

    def pause(self, *queues: MessageQueue) -> None:
        """Deliver nothing of these queues (of all, if none is named) until :meth:`resume`."""
        for held in self._held(queues):
            held.is_paused = True

    def resume(self, *queues: MessageQueue) -> None:
        consumption = self._running()
        for held in self._held(queues):
            held.is_paused = False
            held.wake()
            consumption.delivery.offer(held)

    async def commit(self) -> None:
        """Report now how far the group has come; otherwise it is done every few seconds and at the end."""
        for queue, held in self._running().queues.items():
            await self._offsets.save_offset(queue, held.commit_offset)
            held.reported_offset = held.commit_offset

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset the group has reported for a queue, None if there is none."""
        self._instance.check_running()
        check_queue(queue)
        await self._instance.routes.find(queue.topic)
        offset = await self._offsets.load(queue)
        return None if offset == NO_OFFSET else offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """Offset of the oldest message of a queue."""
        return await self._offset(RequestCode.GET_MIN_OFFSET, queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Offset the next message of a queue will get."""
        return await self._offset(RequestCode.GET_MAX_OFFSET, queue)

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Offset of the first message of a queue that was stored at this time or later."""
        check_whole_number(timestamp_ms, "a time")
        return await self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, {"timestamp": str(timestamp_ms)})

    async def _offset(self, code: RequestCode, queue: MessageQueue, more: dict[str, str] | None = None) -> int:
        self._instance.check_running()
        check_queue(queue)
        await self._instance.routes.find(queue.topic)
        return await queue_offset(self._instance, code, queue, more)

    # Inside

    def _running(self) -> Consumption:
        self._instance.check_running()
        assert self._consumption is not None
        return self._consumption

    def _held(self, queues: Sequence[MessageQueue]) -> list[ProcessQueue]:
        table = self._running().queues
        for queue in queues:
            check_queue(queue)
        missing = [queue for queue in queues if queue not in table]
        if missing:
            raise InvalidArgumentError(f"{queue_name(missing[0])} does not belong to this consumer")
        return [table[queue] for queue in queues] if queues else list(table.values())

    async def _expire(self) -> None:
        self._running().expire()

    def _describe(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model="BROADCASTING" if self._is_broadcasting else "CLUSTERING",
            consume_from_where=_WHERE.get(self._start_from, "CONSUME_FROM_TIMESTAMP"),
            subscription_data_set=tuple(self._subscriptions.values()),
        )

    def _description(self) -> dict[str, str]:
        return {
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMEORDERLY": "true" if self._is_orderly else "false",
            "PROP_THREADPOOL_CORE_SIZE": "1",
        }


_WHERE: Final[dict[str | int, str]] = {LAST: "CONSUME_FROM_LAST_OFFSET", FIRST: "CONSUME_FROM_FIRST_OFFSET"}


def _start(start_from: str | int | datetime) -> str | int:
    if isinstance(start_from, datetime):
        if start_from.tzinfo is None:
            raise InvalidArgumentError(f"the time {start_from} has no time zone, so it is not clear when that is")
        return int(start_from.timestamp() * 1000)
    if isinstance(start_from, str) and start_from not in (FIRST, LAST):
        raise InvalidArgumentError(f"start_from is {start_from!r}: 'first', 'last', a datetime or milliseconds")
    return start_from
