"""How far a write stream has come, asked of the brokers (``message/write_stream.py`` says what a stream is).

Our brokers answer OPEN_WRITE_STREAM exactly and from then on refuse every other writer. Of RocketMQ's the answer is
found by queries for unique keys, once their index has caught up with their log; they refuse nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from flaremq.client.errors import reply_error
from flaremq.client.instance import ClientInstance
from flaremq.client.received import read_messages
from flaremq.errors import InvalidArgumentError, RemoteProtocolError, UnavailableError
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.message.write_stream import NOTHING_STORED, Stored, chain_of, searching, unique_key
from flaremq.protocol.bodies import KVTable, MessageQueue
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError

STATE: Final = "sinkState"
_END_OF_TIME: Final = str(2**63 - 1)
_QUERIES_AT_ONCE: Final = 32
_POLL_SECONDS: Final = 0.02


class FencedError(InvalidArgumentError):
    """Another writer has taken over the stream; this one must stop."""


@dataclass(frozen=True, slots=True)
class StreamName:
    """A stream and its writer.

    ``stream`` is the same for all batches of a query and is what brokers fence; ``stem`` begins the keys of this
    batch. ``token`` is new for each attempt to write it.
    """

    topic: str
    stream: str
    stem: str
    token: str
    is_delayed: bool = False


class StreamLedger:
    """Asks brokers about streams. Event loop thread only."""

    def __init__(self, instance: ClientInstance, timeout: float) -> None:
        self._transport = instance.transport
        self._timeout = timeout
        self._unfenced: set[str] = set()  # addresses of brokers that do not know OPEN_WRITE_STREAM

    def fences(self, address: str) -> bool:
        """Whether a broker that was asked keeps other writers out."""
        return address not in self._unfenced

    async def open(self, name: StreamName, address: str, *, at_least: int = 0) -> Stored:
        """What one broker has of a stream, which is this writer's from now on."""
        if address not in self._unfenced:
            ext = {"topic": name.topic, "stream": name.stream, "stem": name.stem, "token": name.token}
            ext |= {"delayed": "true" if name.is_delayed else "false", "atLeast": str(at_least)}
            reply = await self._transport.call(
                address,
                RequestCode.OPEN_WRITE_STREAM,
                ext,
                timeout=self._timeout,
                accept=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.ILLEGAL_OPERATION),
                what=f"opening a stream to topic {name.topic!r}",
            )
            if reply.code == ResponseCode.SUCCESS:
                return _stored(reply)
            if reply.code == ResponseCode.ILLEGAL_OPERATION:
                raise refusal(reply, name, address)
            self._unfenced.add(address)
        await self._index_caught_up(address)
        return await self._search(name, address)

    async def chains(self, name: StreamName, addresses: Iterable[str], numbers: Iterable[int]) -> dict[int, int]:
        """The digests that some stored messages of a stream carry, by number."""
        places = list(addresses)
        wanted = list(numbers)
        found: dict[int, int] = {}
        for at in range(0, len(wanted), _QUERIES_AT_ONCE):
            part = wanted[at : at + _QUERIES_AT_ONCE]
            for number, message in zip(
                part, await asyncio.gather(*(self._find(name, places, number) for number in part)), strict=True
            ):
                if message is not None:
                    found[number] = chain_of(bytes(message.raw_properties))
        return found

    async def _search(self, name: StreamName, address: str) -> Stored:
        found: dict[int, MessageExt] = {}
        search = searching()
        number = next(search)
        while True:
            message = await self._find(name, [address], number)
            if message is not None:
                found[number] = message
            try:
                number = search.send(message is not None)
            except StopIteration as end:
                count: int = end.value
                return Stored(count, chain_of(bytes(found[count - 1].raw_properties))) if count else NOTHING_STORED

    async def _find(self, name: StreamName, addresses: list[str], number: int) -> MessageExt | None:
        key = unique_key(name.stem, number)
        for topic in (SCHEDULE_TOPIC, name.topic) if name.is_delayed else (name.topic,):
            for address in addresses:
                for message in await self._query(topic, key, address):
                    if message.uniq_key == key:
                        return message
        return None

    async def _query(self, topic: str, key: str, address: str) -> list[MessageExt]:
        ext = {"topic": topic, "key": key, "maxNum": "4", "beginTimestamp": "0", "endTimestamp": _END_OF_TIME}
        ext |= {"indexType": "U", "_UNIQUE_KEY_QUERY": "true"}
        reply = await self._transport.call(
            address,
            RequestCode.QUERY_MESSAGE,
            ext,
            timeout=self._timeout,
            accept=(ResponseCode.QUERY_NOT_FOUND,),
            what=f"the query for message {key} of topic {topic!r}",
        )
        if reply.code != ResponseCode.SUCCESS:
            return []
        return [*read_messages(reply.body_bytes, MessageQueue(topic=topic, broker_name="", queue_id=0))]

    async def _index_caught_up(self, address: str) -> None:
        """Wait until what the broker had in its log when asked can be found by key."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        target: int | None = None
        while True:
            state = await self._index_state(address)
            if state is not None:
                end, behind = state
                target = end if target is None else target
                if end - behind >= target:
                    return
            if loop.time() > deadline:
                late = "is not told" if state is None else f"is {state[1]} bytes behind its log"
                raise UnavailableError(f"how far {address} has indexed its messages {late}: rows cannot be told apart")
            await asyncio.sleep(_POLL_SECONDS)

    async def _index_state(self, address: str) -> tuple[int, int] | None:
        """(End of a broker's log, bytes of it not indexed yet); None while it cannot say.

        RocketMQ 4.9 fails to describe itself in its first seconds.
        """
        reply = await self._transport.call(
            address,
            RequestCode.GET_BROKER_RUNTIME_INFO,
            what=f"the state of {address}",
            timeout=self._timeout,
            accept=(ResponseCode.SYSTEM_ERROR,),
        )
        if reply.code != ResponseCode.SUCCESS:
            return None
        table = KVTable.from_json(reply.body_bytes).table
        try:
            return int(table["commitLogMaxOffset"]), int(table["dispatchBehindBytes"])
        except (KeyError, ValueError):
            raise RemoteProtocolError(f"{address} does not say how far its index is") from None


def refusal(reply: RemotingCommand, name: StreamName, address: str) -> Exception:
    """What a broker's ledger said no with."""
    if (reply.ext or {}).get(STATE) == "fenced":
        return FencedError(
            f"another attempt writes the same rows to topic {name.topic!r} by now ({address}: {reply.remark}): "
            "this one stops"
        )
    return reply_error(reply, f"writing to topic {name.topic!r}", address)


def _stored(reply: RemotingCommand) -> Stored:
    try:
        return Stored(reply.int_field("count"), int(reply.field("chain"), 16))
    except (RequestError, ValueError) as error:
        raise RemoteProtocolError(f"the reply about a stream cannot be read: {error}") from None
