"""Sending write streams: parcels of messages in order, each stored once, several on their way at a time.

A parcel is a batch body with the numbers of its messages. A broker that fences refuses a parcel that would leave a
gap, so many may be under way; to a broker that does not, one at a time goes, or a lost one could leave a gap behind
which nothing could be told apart. After a failure everything under way is awaited, the stream is opened again, and what
is not stored is sent again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flaremq.client.errors import reply_error
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ProducerOptions
from flaremq.client.producer.send_result import STATUS_BY_CODE
from flaremq.client.streams.ledger import STATE, StreamLedger, StreamName, refusal
from flaremq.errors import AccessDeniedError, InvalidArgumentError, UnavailableError
from flaremq.message.batch import decode_batch, item_start
from flaremq.message.write_stream import NOTHING_STORED, Stored, chain_of
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand

_STAMP: Final = "sinkStamp"
_BATCH_PROPERTIES: Final = "WAIT\x01true\x02"
_PAUSES: Final = (0.02, 0.1, 0.3, 1.0)
_LOOKED_UP_AT_ONCE: Final = 32
_ALONE_WINDOW: Final = 64  # requests under way where each holds one message
_WORTH_RETRYING: Final = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
    )
)


@dataclass(frozen=True, slots=True)
class Parcel:
    """Messages ``first`` to ``first`` + ``count`` - 1 of a stream as a batch body."""

    first: int
    count: int
    body: bytes

    @property
    def end(self) -> int:
        return self.first + self.count

    def after(self, number: int) -> Parcel:
        """The part of it from a message on."""
        at = item_start(self.body, number - self.first)
        return replace(self, first=number, count=self.end - number, body=self.body[at:])

    def chain_at(self, number: int) -> int:
        """The digest its message carries."""
        for passed, item in enumerate(decode_batch(self.body)):
            if passed == number - self.first:
                return chain_of(bytes(item.properties))
        raise AssertionError(f"message {number} is not in a parcel of {self.first} to {self.end - 1}")


class StreamWire:
    """The connection of one writer. Event loop thread only."""

    def __init__(
        self,
        name_servers: str,
        *,
        group: str,
        options: ProducerOptions,
        window: int,
        patience_seconds: float,
        sends_in_doubt: bool = False,
    ) -> None:
        self.instance = ClientInstance(name_servers, options)
        self.instance.heartbeats.producer_groups.add(group)
        self.group = group
        self.options = options
        self.window = window
        self.patience_seconds = patience_seconds
        self.ledger = StreamLedger(self.instance, options.send_timeout, sends_in_doubt=sends_in_doubt)

    async def start(self) -> None:
        await self.instance.start()

    async def close(self) -> None:
        await self.instance.stop()

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that can be written to; of one that does not exist yet those it will have."""
        options = self.options
        route = await self.instance.routes.find_for_send(
            topic, template=options.create_topic_key, queues_max=options.default_topic_queue_nums
        )
        if not route.write_queues:
            raise UnavailableError(f"topic {topic!r} has no queue that can be written to at the moment")
        return route.write_queues

    async def open(self, name: StreamName, queue: MessageQueue) -> OpenStream:
        """Become the writer of a stream that goes to one queue."""
        stream = OpenStream(self, name, queue)
        await stream.open()
        return stream

    async def find_begun(self, names: Iterable[StreamName]) -> set[StreamName]:
        """Those of the streams that have a first message."""
        begun = set()
        wanted = list(names)
        for topic in {name.topic for name in wanted}:
            await self.instance.routes.find(topic)
        for at in range(0, len(wanted), _LOOKED_UP_AT_ONCE):
            part = wanted[at : at + _LOOKED_UP_AT_ONCE]
            found = await asyncio.gather(
                *(self.ledger.chains(name, self.masters(name.topic).values(), [0]) for name in part)
            )
            begun |= {name for name, chains in zip(part, found, strict=True) if chains}
        return begun

    def masters(self, topic: str) -> dict[str, str]:
        """The brokers that may have messages of a stream: an earlier attempt may have chosen another one."""
        route = self.instance.routes.known(topic)
        return {} if route is None else {name: ids[0] for name, ids in route.addresses.items() if 0 in ids}


class OpenStream:
    """A stream that is being written: ``put`` parcels in order, then ``finish``."""

    def __init__(self, wire: StreamWire, name: StreamName, queue: MessageQueue) -> None:
        self.name = name
        self.queue = queue
        self.stored = NOTHING_STORED  # when it was opened first
        self._wire = wire
        self._transport = wire.instance.transport
        self._routes = wire.instance.routes
        self._flying: deque[tuple[Parcel, asyncio.Future[RemotingCommand]]] = deque()
        self._acknowledged = 0
        self._proven = False  # a broker that fences has acknowledged something: more may be under way
        self._failures = 0
        self._progress_at = 0.0

    async def open(self) -> None:
        self.stored = await self._ask()
        self._acknowledged = self.stored.count
        self._progress_at = asyncio.get_running_loop().time()

    async def chains(self, numbers: Iterable[int]) -> dict[int, int]:
        """The digests of some stored messages."""
        return await self._wire.ledger.chains(self.name, self._brokers(), numbers)

    async def put(self, parcel: Parcel) -> None:
        """Send, and return when there is room for the next."""
        await self._make_room()
        await self._send(parcel)

    async def finish(self) -> None:
        """Return when everything is stored."""
        while self._flying:
            await self._land()

    def abandon(self) -> None:
        """Wait for nothing any more."""
        for _, future in self._flying:
            future.cancel()
        self._flying.clear()

    # Asking

    def _brokers(self) -> set[str]:
        target = self._routes.master(self.queue.broker_name)
        return {*self._wire.masters(self.name.topic).values(), target}

    async def _ask(self) -> Stored:
        return await self._wire.ledger.open_all(self.name, self._brokers())

    # Sending

    async def _make_room(self) -> None:
        window = _ALONE_WINDOW if self.name.is_delayed else self._wire.window
        while len(self._flying) >= (window if self._proven else 1):
            await self._land()

    async def _send(self, parcel: Parcel) -> None:
        timeout = self._wire.options.send_timeout
        try:
            address = self._routes.master(self.queue.broker_name)
            connection = self._transport.connected(address) or await self._transport.connect(address)
            future = connection.call(self._command(parcel), timeout)
        except UnavailableError as error:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        self._flying.append((parcel, future))

    async def _land(self) -> None:
        """Wait for the oldest parcel under way."""
        parcel, future = self._flying[0]
        try:
            address = self._routes.master(self.queue.broker_name)
            reply = await future
        except UnavailableError as error:
            await self._recover(error)
            return
        if reply.code in STATUS_BY_CODE:
            self._flying.popleft()
            self._landed(parcel.end)
            self._proven = self._wire.ledger.fences(address)
            if not self._proven:
                await self._wire.ledger.check_index(self.name, address, parcel.first)
            return
        state = (reply.ext or {}).get(STATE)
        failure = reply_error(reply, f"writing to topic {self.name.topic!r} on {self.queue.broker_name}", address)
        if state == "fenced":
            raise refusal(reply, self.name, address)
        if state is None and (reply.code not in _WORTH_RETRYING or isinstance(failure, AccessDeniedError)):
            raise failure
        await self._recover(failure)

    def _landed(self, end: int) -> None:
        self._acknowledged = end
        self._failures = 0
        self._progress_at = asyncio.get_running_loop().time()

    async def _recover(self, failure: Exception) -> None:
        """Find out what is stored after all, and send the rest again."""
        loop = asyncio.get_running_loop()
        await asyncio.wait([future for _, future in self._flying])
        parcels = [parcel for parcel, _ in self._flying]
        for _, future in self._flying:
            future.exception()
        self._flying.clear()
        self._proven = False
        while True:
            pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)]
            if loop.time() + pause - self._progress_at > self._wire.patience_seconds:
                raise UnavailableError(
                    f"topic {self.name.topic!r} took nothing for {self._wire.patience_seconds:g} seconds; "
                    f"at last: {failure}"
                ) from failure
            await asyncio.sleep(pause)
            self._failures += 1
            try:
                await self._routes.refresh(self.name.topic)
                stored = await self._ask()
                break
            except UnavailableError as error:
                failure = error
        self._compare(stored, parcels)
        if stored.count > self._acknowledged:
            self._landed(stored.count)
        for parcel in parcels:
            if parcel.end > stored.count:
                await self._make_room()
                await self._send(parcel if parcel.first >= stored.count else parcel.after(stored.count))

    def _compare(self, stored: Stored, parcels: list[Parcel]) -> None:
        """What was stored meanwhile must be what was sent here: else another writer was faster with other rows."""
        number = stored.count - 1
        if stored.count < self._acknowledged:
            raise UnavailableError(
                f"topic {self.name.topic!r} had {self._acknowledged} messages of this write and has "
                f"{stored.count} now: the broker lost some"
            )
        for parcel in parcels:
            if parcel.first <= number < parcel.end and parcel.chain_at(number) != stored.chain:
                raise UnavailableError(f"another attempt wrote other rows to topic {self.name.topic!r}: begin again")
        if parcels and number >= parcels[-1].end:
            raise UnavailableError(f"another attempt wrote more rows to topic {self.name.topic!r}: begin again")

    def _command(self, parcel: Parcel) -> RemotingCommand:
        stamp = f"{self.name.stream}:{self.name.token}:{parcel.first}:{parcel.count}"
        options, now = self._wire.options, str(self._wire.instance.clock.now_ms())
        if not self.name.is_delayed:
            ext = {"a": self._wire.group, "b": self.name.topic, "c": options.create_topic_key}
            ext |= {"d": str(options.default_topic_queue_nums), "e": str(self.queue.queue_id), "f": "0", "g": now}
            ext |= {"h": "0", "i": _BATCH_PROPERTIES, "j": "0", "k": "false", "m": "true"}
            ext |= {"n": self.queue.broker_name, _STAMP: stamp}
            return self._transport.command(RequestCode.SEND_BATCH_MESSAGE, ext, parcel.body)
        # One message alone, under the old code: the one with letters is what brokers take by their fastest way.
        item = next(decode_batch(parcel.body))
        if parcel.count != 1:
            raise InvalidArgumentError(f"delayed messages travel alone, not {parcel.count} together")
        ext = {"producerGroup": self._wire.group, "topic": self.name.topic, "defaultTopic": options.create_topic_key}
        ext |= {"defaultTopicQueueNums": str(options.default_topic_queue_nums), "queueId": str(self.queue.queue_id)}
        ext |= {"sysFlag": "0", "bornTimestamp": now, "flag": "0", "properties": str(item.properties, "utf-8")}
        ext |= {"reconsumeTimes": "0", "unitMode": "false", "batch": "false", _STAMP: stamp}
        return self._transport.command(RequestCode.SEND_MESSAGE, ext, bytes(item.body))
