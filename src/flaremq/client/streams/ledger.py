"""How far a write stream has come, asked of the brokers (``message/write_stream.py`` says what a stream is).

Our brokers answer OPEN_WRITE_STREAM exactly and from then on refuse every other writer. Of RocketMQ's the answer is
found by queries for unique keys, once their index has caught up with their log; they refuse nobody.

An earlier attempt may have gone to another broker, the one before it to a third: each has a stretch of the stream or
several, and only all of them together have its beginning. So all are asked, again from where the best of them ends,
until nobody has the next message. A message behind that one, or a log that begins after the stream was begun, means
that something was deleted: then nobody knows what is stored, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.client.consumer.received import read_messages
from flaremq.client.errors import reply_error
from flaremq.client.instance import ClientInstance
from flaremq.errors import FlareMQError, InvalidArgumentError, RemoteProtocolError, UnavailableError
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.message.write_stream import (
    CHAIN_START,
    LOG_IS_EMPTY,
    NOTHING_STORED,
    DoubtError,
    Search,
    Stored,
    StreamState,
    chain_of,
    check_whole,
    searching,
    unique_key,
)
from flaremq.options import parse_properties
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.topic import KVTable
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError

_log = logging.getLogger(__name__)
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
    batch. ``token`` is new for each attempt to write it. ``begun_ms`` is a time before the first attempt, 0 if nobody
    knows one.
    """

    topic: str
    stream: str
    stem: str
    token: str
    is_delayed: bool = False
    begun_ms: int = 0


class StreamLedger:
    """Asks brokers about streams. Event loop thread only.

    With ``sends_in_doubt`` a writer that cannot tell what is stored goes on with a warning.
    """

    def __init__(self, instance: ClientInstance, timeout: float, *, sends_in_doubt: bool = False) -> None:
        self._transport = instance.transport
        self._timeout = timeout
        self._sends_in_doubt = sends_in_doubt
        self._unfenced: set[str] = set()  # addresses of brokers that do not know OPEN_WRITE_STREAM
        self._indexing: set[str] = set()  # those of them that were seen to find what they had acknowledged

    def fences(self, address: str) -> bool:
        """Whether a broker that was asked keeps other writers out."""
        return address not in self._unfenced

    async def open_all(self, name: StreamName, addresses: Collection[str]) -> Stored:
        """What brokers have of a stream together; it is this writer's from now on. DoubtError if that is unclear."""
        known = NOTHING_STORED
        while True:
            states = dict(
                zip(
                    addresses,
                    await asyncio.gather(*(self.open(name, address, at_least=known.count) for address in addresses)),
                    strict=True,
                )
            )
            if known.count == 0:
                self._check_age(name, states)
            best = max(states.values(), key=lambda state: state.count)
            is_end = best.count == known.count
            if not is_end:
                known = Stored(best.count, best.chain)
            if is_end or len(states) == 1:
                break
        try:
            check_whole(known.count, max(state.beyond for state in states.values()), f"topic {name.topic!r}")
        except DoubtError as error:
            self._doubt(error)
        return known

    def _check_age(self, name: StreamName, states: dict[str, StreamState]) -> None:
        """Whether a broker may have had messages of the stream and deleted them since."""
        for address, state in states.items():
            if name.begun_ms and state.log_start_ms > name.begun_ms and not state.count:
                self._doubt(
                    DoubtError(
                        f"the log of {address} begins later than this batch was begun: rows of it that an earlier "
                        f"attempt stored in topic {name.topic!r} may have been deleted by retention, so it is not "
                        "known which are stored"
                    )
                )

    def _doubt(self, error: DoubtError) -> None:
        if not self._sends_in_doubt:
            raise error
        _log.warning("%s; all the same they are sent, as onDoubt=send asks for", error)

    async def open(self, name: StreamName, address: str, *, at_least: int = 0) -> StreamState:
        """What one broker has of a stream, from a message on; it is this writer's there from now on."""
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
                return _state(reply)
            if reply.code == ResponseCode.ILLEGAL_OPERATION:
                raise refusal(reply, name, address)
            await self._check_configuration(address)
            self._unfenced.add(address)
        log_start_ms = await self._index_caught_up(address)
        return await self._search(name, address, at_least, log_start_ms)

    async def check_index(self, name: StreamName, address: str, number: int) -> None:
        """DoubtError if a broker without fences does not find by key what it has acknowledged."""
        if address in self._indexing:
            return
        try:
            await self._index_caught_up(address)
            found = await self._find(name, [address], number)
        except UnavailableError:
            return  # it went away: what it acknowledges next is looked up
        if found is None:
            self._doubt(
                DoubtError(
                    f"{address} has acknowledged a message and does not find it by its key: it keeps no index "
                    "(messageIndexEnable=false), so it could not be told which rows are stored if they came again"
                )
            )
        self._indexing.add(address)

    async def _check_configuration(self, address: str) -> None:
        """The same as far as a broker tells before anything is sent; not everybody may ask."""
        try:
            reply = await self._transport.call(address, RequestCode.GET_BROKER_CONFIG, timeout=self._timeout)
            config = parse_properties(reply.body_bytes.decode())
        except (FlareMQError, UnicodeDecodeError):
            return
        if config.get("messageIndexEnable", "true").lower() == "false":
            self._doubt(
                DoubtError(
                    f"{address} keeps no index (messageIndexEnable=false), by which rows that are stored already are "
                    "told apart"
                )
            )

    async def chains(self, name: StreamName, addresses: Iterable[str], numbers: Iterable[int]) -> dict[int, int]:
        """The digests that some stored messages of a stream carry, by number."""
        found = await self._found(name, list(addresses), list(numbers))
        return {number: chain_of(bytes(message.raw_properties)) for number, message in found.items()}

    async def _search(self, name: StreamName, address: str, at_least: int, log_start_ms: int) -> StreamState:
        found: dict[int, MessageExt] = {}
        search = searching(at_least)
        numbers = next(search)
        while True:
            try:
                met = await self._found(name, [address], numbers)
                found |= met
                numbers = search.send(met)
            except StopIteration as end:
                result: Search = end.value
                break
        last = found.get(result.count - 1)
        chain = CHAIN_START if last is None else chain_of(bytes(last.raw_properties))
        return StreamState(result.count, chain, result.beyond, log_start_ms)

    async def _found(self, name: StreamName, addresses: list[str], numbers: Sequence[int]) -> dict[int, MessageExt]:
        """Those of the messages that are stored, by number."""
        found: dict[int, MessageExt] = {}
        for at in range(0, len(numbers), _QUERIES_AT_ONCE):
            part = numbers[at : at + _QUERIES_AT_ONCE]
            messages = await asyncio.gather(*(self._find(name, addresses, number) for number in part))
            found |= {number: message for number, message in zip(part, messages, strict=True) if message is not None}
        return found

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

    async def _index_caught_up(self, address: str) -> int:
        """Wait until what the broker had in its log when asked can be found by key; its ``log_start_ms``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        target: int | None = None
        while True:
            state = await self._index_state(address)
            if state is not None:
                end, behind, log_start_ms = state
                target = end if target is None else target
                if end - behind >= target:
                    return log_start_ms
            if loop.time() > deadline:
                late = "is not told" if state is None else f"is {state[1]} bytes behind its log"
                raise UnavailableError(f"how far {address} has indexed its messages {late}: rows cannot be told apart")
            await asyncio.sleep(_POLL_SECONDS)

    async def _index_state(self, address: str) -> tuple[int, int, int] | None:
        """(End of a broker's log, bytes of it not indexed yet, its ``log_start_ms``); None while it cannot say.

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
            is_cut = int(table.get("commitLogMinOffset", 0)) > 0
            earliest = int(table.get("earliestMessageTimeStamp", 0)) if is_cut else 0
            log_start_ms = LOG_IS_EMPTY if earliest < 0 else earliest
            return int(table["commitLogMaxOffset"]), int(table["dispatchBehindBytes"]), log_start_ms
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


def _state(reply: RemotingCommand) -> StreamState:
    try:
        chain = int(reply.field("chain"), 16)
        return StreamState(reply.int_field("count"), chain, reply.int_field("beyond"), reply.int_field("logStart"))
    except (RequestError, ValueError) as error:
        raise RemoteProtocolError(f"the reply about a stream cannot be read: {error}") from None
