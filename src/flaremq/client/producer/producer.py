"""Producer: sends messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from flaremq.client.arguments import check_group, check_queue, check_seconds, check_text, check_whole_number
from flaremq.client.credentials import Credentials
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ProducerOptions
from flaremq.client.producer.accumulator import Accumulator
from flaremq.client.producer.outgoing import Outgoing, item_bytes, prepare, prepare_batch
from flaremq.client.producer.queue_selection import queue_of_key
from flaremq.client.producer.request_reply import RequestReply
from flaremq.client.producer.send_result import SendResult
from flaremq.client.producer.sender import Sender
from flaremq.client.producer.transactions import TransactionListener, TransactionResult, Transactions
from flaremq.clock import Clock
from flaremq.errors import FlareMQError, InvalidArgumentError, ReplyError
from flaremq.message.batch import ITEM_OVERHEAD
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode

DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"
_TIMER_VERSION: Final = 413  # 5.0.0, the first release with timer messages
_LEVELS: Final = parse_delay_levels(DEFAULT_DELAY_LEVELS)


class Producer:
    """Sends messages to the topics of a cluster.

    Use it inside ``async with``, or call :meth:`start` and :meth:`close`; from one event loop. Sends may run at the
    same time as many as you like: those that wait at the same moment travel together. A send waits for a broker that is
    away, for a minute unless ``sendDeadline`` says otherwise.
    """

    _entered_by = "async with"

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str = DEFAULT_GROUP,
        options: ProducerOptions | None = None,
        credentials: Credentials | None = None,
        listener: TransactionListener | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_group(group)
        self.group = group
        self.options = (options or ProducerOptions()).signed_by(credentials)
        self._instance = ClientInstance(name_servers, self.options, clock=clock, entered_by=self._entered_by)
        self._instance.heartbeats.producer_groups.add(group)
        self._sender = Sender(self._instance, group, self.options)
        self._transactions = Transactions(self._instance, self._sender, group, self.options, listener)
        self._requests = RequestReply(self._instance, self._sender, self.options)
        self._accumulators: dict[str | MessageQueue, Accumulator] = {}

    @property
    def client_id(self) -> str:
        """The name brokers know this producer by; empty before it is started."""
        return self._instance.client_id

    async def start(self) -> None:
        """Begin; the first send finds out whether a name server can be reached."""
        await self._instance.start()

    async def close(self) -> None:
        """Send what is waiting, then take leave."""
        for accumulator in list(self._accumulators.values()):
            await accumulator.finish()
        self._requests.abandon()
        await self._instance.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            for accumulator in self._accumulators.values():  # cancelled: do not wait for anything
                accumulator.abandon()
        await self.close()

    async def send(
        self, message: Message, *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send a message and wait until it is stored. ``queue`` chooses one of :meth:`queues`."""
        outgoing = self._prepare(message)
        if timeout is not None:
            _set_timeout(outgoing, timeout)
        if queue is not None:
            check_queue(queue)
        return await self._accumulator(outgoing.topic if queue is None else queue).send(outgoing)

    def submit(self, message: Message) -> asyncio.Future[SendResult]:
        """Like :meth:`send`, without a task: the future has the result when the message is stored.

        Cheaper than ``create_task(producer.send(message))`` where very many sends run at the same time.
        """
        outgoing = prepare(message, self._instance.unique_keys.make(), self.options)
        return self._accumulator(outgoing.topic).put(outgoing)

    async def send_batch(
        self, messages: Iterable[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        """Send messages of one topic to one queue, in this order, in as few requests as possible."""
        _check_timeout(timeout)
        if not isinstance(messages, Iterable):
            raise InvalidArgumentError(f"a batch is a list of messages, not {messages!r}")
        batch = prepare_batch(messages, self._instance.unique_keys, self.options)
        if not batch:
            return []
        if queue is None:
            queue = self._sender.pick(await self._sender.find_route(batch[0].topic, timeout=timeout))
        results: list[SendResult] = []
        for part in _split(batch, self.options.max_message_size):
            results += await self._sender.transmit(part, queue=queue, timeout=timeout)
        return results

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Send a message without asking whether it was stored."""
        await self._sender.send_oneway(self._prepare(message), queue=queue)

    async def send_ordered(self, message: Message, key: str, *, timeout: float | None = None) -> SendResult:
        """Send a message to the queue of its key: messages of one key are stored in the order of these calls."""
        check_text(key, "an ordering key")
        outgoing = self._prepare(message)
        if timeout is not None:
            _set_timeout(outgoing, timeout)
        route = self._instance.routes.known(outgoing.topic) or await self._sender.find_route(
            outgoing.topic, timeout=timeout
        )
        return await self._accumulator(queue_of_key(route.write_queues, key)).send(outgoing)

    async def send_delayed(
        self,
        message: Message,
        *,
        level: int | None = None,
        seconds: float | None = None,
        at: datetime | int | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message that is delivered later: by delay level (1 to 18), in so many seconds, or at a time.

        ``at`` is a datetime with a time zone, or milliseconds since the epoch. Brokers of 4.x know levels only; there
        ``seconds`` must be the delay of one of them.
        """
        if sum(given is not None for given in (level, seconds, at)) != 1:
            raise InvalidArgumentError("send_delayed takes exactly one of level, seconds and at")
        _check_timeout(timeout)
        if level is not None:
            check_whole_number(level, "a delay level")
            if not 1 <= level <= len(_LEVELS.delays_ms):
                raise InvalidArgumentError(f"delay level {level} is none: levels count from 1 (1 s) to 18 (2 h)")
            extra = {DELAY: str(level)}
        else:
            extra = await self._delay_properties(message.topic, seconds, at, timeout)
        outgoing = self._prepare(message, extra)
        return (await self._sender.transmit([outgoing], timeout=timeout))[0]

    async def transaction(self, message: Message, argument: object = None) -> TransactionResult:
        """Send a message that is delivered only if the listener's local transaction commits."""
        self._instance.check_running()
        return await self._transactions.run(message, argument)

    async def request(self, message: Message, *, timeout: float = 3.0) -> Message:
        """Send a message and wait for the answer of whoever consumes it."""
        self._instance.check_running()
        return await self._requests.request(message, timeout)

    async def reply(self, request: MessageExt | Message, body: bytes) -> SendResult:
        """Answer a message that was sent by :meth:`request`."""
        self._instance.check_running()
        properties: Mapping[str, str] = request.properties or {}
        return await self._requests.reply(properties, body)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Take back a timer message that was not delivered yet (5.3 and later); its message id."""
        self._instance.check_running()
        check_text(topic, "a topic")
        check_text(recall_handle, "a recall handle")
        route = await self._sender.route(topic)
        failure: FlareMQError | None = None
        for addresses in route.addresses.values():
            if 0 not in addresses:
                continue
            ext = {"topic": topic, "recallHandle": recall_handle, "producerGroup": self.group}
            try:
                reply = await self._instance.transport.call(
                    addresses[0], RequestCode.RECALL_MESSAGE, ext, what=f"recalling a message of {topic!r}"
                )
            except ReplyError as error:  # the handle names another broker
                failure = error
                continue
            return reply.field("msgId")
        raise failure or InvalidArgumentError(f"no broker of {topic!r} can be asked")

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written to."""
        self._instance.check_running()
        return list((await self._instance.routes.find(topic)).write_queues)

    async def flush(self) -> None:
        """Wait until everything submitted so far is stored or has failed."""
        for accumulator in list(self._accumulators.values()):
            await accumulator.finish()

    def _prepare(self, message: Message, extra: Mapping[str, str] | None = None) -> Outgoing:
        return prepare(message, self._instance.make_unique_key(), self.options, extra)

    def _accumulator(self, key: str | MessageQueue) -> Accumulator:
        accumulator = self._accumulators.get(key)
        if accumulator is None:
            queue = key if isinstance(key, MessageQueue) else None
            accumulator = self._accumulators[key] = Accumulator(self._sender, self.options, queue=queue)
        return accumulator

    async def _delay_properties(
        self, topic: str, seconds: float | None, at: datetime | int | None, timeout: float | None
    ) -> dict[str, str]:
        if isinstance(at, datetime):
            if at.tzinfo is None:
                raise InvalidArgumentError(f"the time {at} has no time zone, so it is not clear when that is")
            at = int(at.timestamp() * 1000)
        has_timers = await self._has_timers(topic, timeout)
        if seconds is not None:
            check_seconds(seconds, "a delay")
            if seconds <= 0:
                raise InvalidArgumentError(f"a delay of {seconds} seconds is none")
            milliseconds = int(seconds * 1000)
            if has_timers:
                return {TIMER_DELAY_MS: str(milliseconds)}
            if milliseconds in _LEVELS.delays_ms:
                return {DELAY: str(_LEVELS.delays_ms.index(milliseconds) + 1)}
        elif has_timers:
            return {TIMER_DELIVER_MS: str(at)}
        raise InvalidArgumentError(
            f"the brokers of {topic!r} are RocketMQ 4.x and know delay levels only ({DEFAULT_DELAY_LEVELS}): "
            "a message with another delay would be delivered at once"
        )

    async def _has_timers(self, topic: str, timeout: float | None) -> bool:
        """Whether all brokers of a topic know timer messages, as far as they can be reached."""
        versions = self._instance.transport.versions
        masters = await self._sender.greet(topic, timeout=timeout)
        return all(versions.get(address, _TIMER_VERSION) >= _TIMER_VERSION for address in masters)


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None:
        check_seconds(timeout, "a timeout")
        if timeout <= 0:
            raise InvalidArgumentError(f"a timeout of {timeout} seconds leaves no time to send")


def _set_timeout(outgoing: Outgoing, timeout: float) -> None:
    _check_timeout(timeout)
    outgoing.timeout = timeout
    outgoing.is_alone = True  # others would have to share its timeout


def _split(batch: list[Outgoing], size_max: int) -> Iterable[list[Outgoing]]:
    """Parts that each fit one request; a message that is too large for any is refused by the broker."""
    if item_bytes(batch) <= size_max:
        yield batch
        return
    part: list[Outgoing] = []
    size = 0
    for outgoing in batch:
        item = ITEM_OVERHEAD + len(outgoing.body) + len(outgoing.properties)
        if part and size + item > size_max:
            yield part
            part, size = [], 0
        part.append(outgoing)
        size += item
    yield part
