"""SinkLedger: who writes which stream, and how far it has come (``message/write_stream.py`` says what a stream is).

A writer opens its stream with a token of its own before it sends; from then on whoever holds an older token is refused,
so an attempt that was given up and lives on (a slow executor, a request that was on its way for long) cannot add
anything. Sends carry ``stream:token:first:count``. What is stored already is acknowledged again and not stored again; a
send that would leave a gap is refused, so the stored messages of a stream are always its beginning.

Nothing of this is written down. The count of a stream is read from the index when it is opened, after everything that
was appended before is durable and dispatched; a restarted broker asks for the stream to be opened again.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.errors import CorruptionError
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.message.write_stream import CHAIN_START, LOG_IS_EMPTY, StreamState, chain_of, search_stored, unique_key
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.storage.status import PutMessageStatus

STREAMS_MAX: Final = 65_536
STAMP: Final = "sinkStamp"  # ext field of a send
STATE: Final = "sinkState"  # ext field of a refusal
_STAMP: Final = re.compile(r"([0-9A-F]{16}):([0-9a-f]{16}):([0-9]{1,10}):([0-9]{1,6})\Z")


class Refused(RequestError):
    """The ledger says no; ``state`` tells the writer what to do next.

    ``closed``: open the stream (again). ``gap``: something before is missing. ``fenced``: another writer took over.
    """

    def __init__(self, state: str, remark: str) -> None:
        super().__init__(ResponseCode.ILLEGAL_OPERATION, remark)
        self.state = state

    def reply(self) -> RemotingCommand:
        return RemotingCommand.response(self.code, self.remark, ext={STATE: self.state})


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a send says about its messages: numbers ``first`` to ``first`` + ``count`` - 1 of a stream."""

    stream: str
    token: str
    first: int
    count: int

    @classmethod
    def parse(cls, text: object) -> Stamp:
        matched = _STAMP.match(str(text))
        if matched is None:
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"{STAMP} {str(text)[:100]!r} is not understood")
        stream, token, first, count = matched.groups()
        return cls(stream, token, int(first), int(count))


class StreamEntry:
    """One open stream. ``lock`` is held from looking at ``next`` to having appended."""

    __slots__ = ("end_offset", "lock", "next", "token")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.token = ""
        self.next = 0  # number of the message expected next
        self.end_offset = 0  # where its last message ends in the log

    def stored_of(self, stamp: Stamp) -> int:
        """How many messages of a send are stored already; ``Refused`` if the rest may not be appended. Lock held."""
        if self.token != stamp.token:
            if not self.token:
                raise Refused("closed", f"stream {stamp.stream} is not open: too many others were opened since")
            raise Refused("fenced", f"another writer has opened stream {stamp.stream}")
        if stamp.first > self.next:
            remark = f"stream {stamp.stream} expects message {self.next}, not {stamp.first}"
            raise Refused("gap", remark)
        return min(stamp.count, self.next - stamp.first)

    def appended(self, count: int, end_offset: int) -> None:
        self.next += count
        self.end_offset = end_offset


class SinkLedger:
    """The streams that are being written. Event loop only."""

    def __init__(self, store_loop: StoreLoop, *, streams_max: int = STREAMS_MAX) -> None:
        self._store_loop = store_loop
        self._streams_max = streams_max
        self._entries: OrderedDict[tuple[str, str], StreamEntry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, topic: str, stamp: Stamp) -> StreamEntry:
        """The entry of a stream somebody opened."""
        entry = self._entries.get((topic, stamp.stream))
        if entry is None:
            raise Refused("closed", f"stream {stamp.stream} of topic {topic} is not open here")
        self._entries.move_to_end((topic, stamp.stream))
        return entry

    async def open(
        self, topic: str, stream: str, token: str, stem: str, *, is_delayed: bool, at_least: int = 0
    ) -> StreamState:
        """Make ``token`` the only writer of a stream; what is stored of it here.

        ``at_least`` messages are known to be stored, some of them on another broker: it is asked from there on.
        """
        store_loop = self._store_loop
        if not store_loop.store.options.message_index_enable:
            raise RequestError(
                ResponseCode.NO_PERMISSION, "streams are told apart by the index, and messageIndexEnable is false"
            )
        entry = self._entry(topic, stream)
        entry.token = token  # who held it before is refused from here on
        async with entry.lock:
            await self.until_findable(store_loop.driver.appended)
            state = await store_loop.run_cold(self._look, topic, stem, is_delayed, at_least)
            if entry.token != token:
                raise Refused("fenced", f"another writer has opened stream {stream}")
            entry.next = state.count
        return state

    def _entry(self, topic: str, stream: str) -> StreamEntry:
        entry = self._entries.get((topic, stream))
        if entry is None:
            entry = self._entries[topic, stream] = StreamEntry()
            if len(self._entries) > self._streams_max:
                _, oldest = self._entries.popitem(last=False)
                oldest.token = ""  # who still holds it must open it again
        self._entries.move_to_end((topic, stream))
        return entry

    async def until_findable(self, end_offset: int) -> None:
        """Return when everything before ``end_offset`` is as safe as promised and can be found by the index."""
        store_loop = self._store_loop
        if (
            store_loop.durability.acknowledges_later
            and await store_loop.durability.until_durable(end_offset) is not PutMessageStatus.PUT_OK
        ):
            raise RequestError(ResponseCode.SYSTEM_BUSY, "disk or slaves are too slow to say what is stored")
        while store_loop.store.dispatched_offset < end_offset:
            store_loop.dispatching.catch_up()
            if store_loop.store.dispatched_offset < end_offset:
                if store_loop.driver.has_dispatch_error:
                    raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, "the index cannot be written at the moment")
                await asyncio.sleep(0.001)

    def _look(self, topic: str, stem: str, is_delayed: bool, at_least: int) -> StreamState:
        """On a worker thread: search the index."""
        found: dict[int, MessageExt] = {}

        def stored_of(numbers: Sequence[int]) -> Collection[int]:
            for number in numbers:
                message = self._find(topic, unique_key(stem, number), is_delayed)
                if message is not None:
                    found[number] = message
            return found

        search = search_stored(stored_of, at_least)
        last = found.get(search.count - 1)
        try:
            chain = CHAIN_START if last is None else chain_of(bytes(last.raw_properties))
        except CorruptionError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return StreamState(search.count, chain, search.beyond, self._log_start_ms())

    def _find(self, topic: str, key: str, is_delayed: bool) -> MessageExt | None:
        store = self._store_loop.store
        # A delayed message waits under the schedule topic, with the same key, and comes to its own when it is due.
        for name in (SCHEDULE_TOPIC, topic) if is_delayed else (topic,):
            for message in store.query(name, key, 1):
                if message.uniq_key == key:
                    return message
        return None

    def _log_start_ms(self) -> int:
        store = self._store_loop.store
        if not store.min_physical_offset:
            return 0
        earliest = self._store_loop.store.inspector.earliest_store_time()
        return LOG_IS_EMPTY if earliest is None else earliest
