"""Sender: puts messages on the wire, again and elsewhere if it fails, and reads what became of them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from flaremq.client.errors import reply_error
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ProducerOptions
from flaremq.client.producer.outgoing import Outgoing, encode_items
from flaremq.client.producer.queue_selection import FaultTable, QueueSelector
from flaremq.client.producer.send_result import STATUS_BY_CODE, SendResult, SendStatus, results_of_batch
from flaremq.client.routes import MASTER_ID, TopicRoute
from flaremq.errors import AccessDeniedError, FlareMQError, RemoteProtocolError, UnavailableError
from flaremq.message.compression import compress
from flaremq.message.sys_flag import CompressionType, with_compression
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import ROLE_FIELD, RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.connection import RequestTimeoutError

_log = logging.getLogger(__name__)

# Refusals that another try, on another broker or a moment later, may get past.
_WORTH_RETRYING: Final = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.GO_AWAY,
        204,  # no buyer id
        205,  # not in the current unit
    )
)
# Seconds before the second, third, … and any later try on the same broker. Short at first: where a controller chooses
# the master, the next one is there after some tens of milliseconds.
_PAUSES: Final = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
_COMPRESS_INLINE_MAX: Final = 128 << 10  # larger bodies are compressed on a thread: the loop would stand still for long
_BATCH_PROPERTIES: Final = "WAIT\x01true\x02"
_T = TypeVar("_T")


class Sender:
    """Sends for one producer group. Event loop thread only."""

    def __init__(self, instance: ClientInstance, group: str, options: ProducerOptions) -> None:
        self._instance = instance
        self._transport = instance.transport
        self._routes = instance.routes
        self._clock = instance.clock
        self._group = group
        self._options = options
        self._queue_nums = str(options.default_topic_queue_nums)
        self.faults = FaultTable(self._clock.monotonic, is_enabled=options.send_latency_enable)
        # Many short-lived producers that all began at the same queue would fill that one alone.
        self._selector = QueueSelector(self.faults, start=random.randrange(1 << 16))

    async def route(self, topic: str) -> TopicRoute:
        """Where messages of a topic may go."""
        route = self._routes.known(topic)
        if route is not None and not route.is_borrowed:
            return route
        options = self._options
        return await self._routes.find_for_send(
            topic, template=options.create_topic_key, queues_max=options.default_topic_queue_nums
        )

    async def find_route(self, topic: str, *, timeout: float | None = None) -> TopicRoute:
        """:meth:`route`, waiting for a cluster that is away like :meth:`transmit`."""
        return await self._patiently(lambda: self.route(topic), timeout)

    async def greet(self, topic: str, *, timeout: float | None = None) -> list[str]:
        """Be known to the brokers that a message may go to, and know their releases: the addresses of their masters.

        Brokers that are away are waited for like those of :meth:`transmit`, unless another one of the topic is there.
        """
        return await self._patiently(lambda: self._greet(topic), timeout)

    async def _greet(self, topic: str) -> list[str]:
        route = await self.route(topic)
        masters = [addresses[MASTER_ID] for addresses in route.addresses.values() if MASTER_ID in addresses]
        failures: list[UnavailableError] = []
        for address in masters:
            try:
                await self._instance.heartbeats.ensure(address)
            except UnavailableError as error:
                failures.append(error)
        if failures and len(failures) == len(masters):
            await self._another_look(topic, route)
            raise failures[0]
        return masters

    async def _patiently(self, ask: Callable[[], Awaitable[_T]], timeout: float | None) -> _T:
        """What must be known before a send, asked for as long as that may take.

        Nobody waits for a cluster that was never reached: its address is likely wrong.
        """
        deadline = self._clock.monotonic() + (self._options.send_deadline / 1000 if timeout is None else timeout)
        attempt = 0
        while True:
            left = deadline - self._clock.monotonic()
            try:
                async with asyncio.timeout(None if timeout is None else left):
                    return await ask()
            except TimeoutError:
                raise UnavailableError(f"neither name server nor broker answered within {timeout} seconds") from None
            except UnavailableError:
                left = deadline - self._clock.monotonic()
                if left <= 0 or not self._routes.master_addresses():
                    raise
            await asyncio.sleep(min(_PAUSES[min(attempt, len(_PAUSES) - 1)], left))
            attempt += 1

    # Long on purpose: every send runs through it, and another coroutine a try would cost each of them.
    async def transmit(
        self,
        messages: Sequence[Outgoing],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        code: RequestCode = RequestCode.SEND_MESSAGE_V2,
    ) -> list[SendResult]:
        """Send messages of one topic together, to ``queue`` or one of our choice; one result each.

        Brokers that cannot be reached are tried until the deadline, ``timeout`` or that of the options; those that
        refuse as often as the options say. At least once: a try whose reply got lost may have been stored.
        """
        topic = messages[0].topic
        clock, options = self._clock, self._options
        began = clock.monotonic()
        route = self._routes.known(topic) or await self.find_route(topic, timeout=timeout)
        if messages[0].is_uncompressed:  # so it is the only one
            await _pack(messages[0], options)
        patience = options.send_deadline / 1000 if timeout is None else timeout
        deadline = began + max(patience, options.send_timeout if timeout is None else 0.0)
        tries_left = 1 + options.retry_times_when_send_failed
        attempt = 0
        last_broker: str | None = None
        failure: FlareMQError | None = None
        stored: list[SendResult] | None = None
        while tries_left > 0:
            if queue is None and not route.write_queues and route.lacks_masters:
                failure = UnavailableError(f"no broker of topic {topic!r} has a master at the moment")
                attempt += 1
                await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES)) - 1])
                if clock.monotonic() - began >= patience:
                    break
                route = await self._another_look(topic, route)
                continue
            target = queue or self._selector.pick(route.write_queues, last_broker=last_broker)
            if attempt and target.broker_name == last_broker:
                await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES)) - 1])
            attempt += 1
            last_broker = target.broker_name
            started = clock.monotonic()
            if started >= deadline:
                break
            try:
                address = self._routes.master(last_broker)
                connection = self._transport.connected(address) or await self._transport.connect(address)
                limit = deadline - started if timeout is not None else min(options.send_timeout, deadline - started)
                reply = await connection.call(self._command(messages, target, code), limit)
            except UnavailableError as error:
                self.faults.record(last_broker, clock.monotonic() - started, failed=True)
                failure = error
                if isinstance(error, RequestTimeoutError):
                    self._instance.spawn(self._settle(topic))  # the next send goes to the master there is by then
                    break  # maybe stored by a slow broker: another try would store it twice and slow it further
                if clock.monotonic() - began >= patience:
                    tries_left -= 1
                route = await self._another_look(topic, route)
                continue
            if reply.ext and ROLE_FIELD in reply.ext and clock.monotonic() - began < patience:
                # It is no master any more, or not sure to be one: the next master is waited for like a restart.
                self.faults.record(last_broker, clock.monotonic() - started, failed=True)
                failure = reply_error(reply, f"sending to topic {topic!r} on {target.broker_name}", address)
                route = await self._another_look(topic, route)
                continue
            tries_left -= 1
            status = STATUS_BY_CODE.get(reply.code)
            if status is not None and reply.ext:
                self.faults.record(last_broker, clock.monotonic() - started)
                if route.is_borrowed:
                    self._instance.spawn(self._settle(topic))
                else:
                    self._instance.heartbeats.send_soon(address)
                stored = _results(status, reply, target, messages)
                if status is SendStatus.SEND_OK or not self._options.retry_another_broker_when_not_store_ok:
                    return stored
                continue
            failure = reply_error(reply, f"sending to topic {topic!r} on {target.broker_name}", address)
            if reply.code not in _WORTH_RETRYING or isinstance(failure, AccessDeniedError):
                raise failure
            self.faults.record(last_broker, clock.monotonic() - started, failed=True)
            if reply.code == ResponseCode.TOPIC_NOT_EXIST:
                route = await self._another_look(topic, route)
        if stored is not None:
            return stored
        assert failure is not None
        raise failure

    async def send_oneway(self, message: Outgoing, *, queue: MessageQueue | None = None) -> None:
        """Write a message and do not ask what became of it."""
        route = self._routes.known(message.topic) or await self.route(message.topic)
        await _pack(message, self._options)
        target = queue or self._selector.pick(route.write_queues)
        connection = await self._transport.connect(self._routes.master(target.broker_name))
        command = self._command([message], target, RequestCode.SEND_MESSAGE_V2, oneway=True)
        connection.notify(command)
        await connection.drain()

    def pick(self, route: TopicRoute) -> MessageQueue:
        """A queue for messages that must stay together."""
        return self._selector.pick(route.write_queues)

    async def _another_look(self, topic: str, route: TopicRoute) -> TopicRoute:
        """The route, asked for again after a failure; the old one if it cannot be had."""
        try:
            return await self._routes.refresh(topic) or route
        except UnavailableError:
            return route

    async def _settle(self, topic: str) -> None:
        """A send created the topic, or its master does not answer: take over the route that the name server has."""
        try:
            await self._routes.refresh(topic)
        except UnavailableError as error:
            _log.info("the route of topic %s is not known: %s", topic, error)

    def _command(
        self, messages: Sequence[Outgoing], queue: MessageQueue, code: RequestCode, *, oneway: bool = False
    ) -> RemotingCommand:
        first = messages[0]
        is_batch = len(messages) > 1
        ext = {
            "a": self._group,
            "b": queue.topic,
            "c": self._options.create_topic_key,
            "d": self._queue_nums,
            "e": str(queue.queue_id),
            "f": "0" if is_batch else str(first.sys_flag),
            "g": str(self._clock.now_ms()),
            "h": "0" if is_batch else str(first.flag),
            "i": _BATCH_PROPERTIES if is_batch else first.properties.decode(),
            "j": "0",
            "k": "false",
            "m": "true" if is_batch else "false",
            "n": queue.broker_name,
        }
        if is_batch:
            return self._transport.command(RequestCode.SEND_BATCH_MESSAGE, ext, encode_items(messages))
        return self._transport.command(code, ext, first.body, oneway=oneway)


def _results(
    status: SendStatus, reply: RemotingCommand, target: MessageQueue, messages: Sequence[Outgoing]
) -> list[SendResult]:
    ext = reply.ext or {}
    try:
        queue_id, queue_offset = reply.int_field("queueId"), reply.int_field("queueOffset")
        offset_ids = reply.field("msgId")
    except RequestError as error:
        raise RemoteProtocolError(f"the reply to a send cannot be read: {error.remark}") from None
    if queue_id != target.queue_id:
        target = MessageQueue(topic=target.topic, broker_name=target.broker_name, queue_id=queue_id)
    if len(messages) == 1:
        transaction_id, handle = ext.get("transactionId"), ext.get("recallHandle")
        return [
            SendResult(
                status,
                messages[0].unique_key,
                offset_ids,
                target,
                queue_offset,
                transaction_id=None if transaction_id is None else str(transaction_id),
                recall_handle=None if handle is None else str(handle),
            )
        ]
    return results_of_batch(status, messages, offset_ids, target, queue_offset)


async def _pack(message: Outgoing, options: ProducerOptions) -> None:
    """Compress the body if that is still to be done."""
    if not message.is_uncompressed:
        return
    message.is_uncompressed = False
    kind = CompressionType[options.compress_type]
    if len(message.body) <= _COMPRESS_INLINE_MAX:
        message.body = compress(message.body, kind)
    else:
        message.body = await asyncio.to_thread(compress, message.body, kind)
    message.sys_flag = with_compression(message.sys_flag, kind)
