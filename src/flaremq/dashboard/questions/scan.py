"""A bounded walk over the queues of a topic, in the order of store times, and how far it came.

Queues are merged by the time of their next message, newest or oldest first. What a filter leaves out counts as looked
at; messages, bytes and seconds are limited, and the walk says which of them ended it and where it stands, so that the
next page goes on there.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.consumer.subscription import Expression
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.errors import InvalidArgumentError
from flaremq.message.tags import ALL_TAGS
from flaremq.protocol.bodies.queue import MessageQueue

MESSAGES_MAX: Final = 20_000
BYTES_MAX: Final = 64 << 20
SECONDS_MAX: Final = 3.0
_CHUNK: Final = 32  # what a broker gives in one answer
_FILTERED_CHUNK: Final = 256
_AT_ONCE: Final = 8
_CURSOR_MAX: Final = 200_000
Filter = Callable[[ReceivedMessage], bool]


@dataclass(slots=True)
class Walk:
    """What a walk found and how far it came."""

    messages: list[ReceivedMessage] = field(default_factory=list)
    scanned: int = 0
    scanned_bytes: int = 0
    stopped_by: str | None = None  # limit, messages, bytes or time
    places: dict[MessageQueue, int] = field(default_factory=dict)  # where each queue goes on
    times: dict[MessageQueue, int] = field(default_factory=dict)  # store time of the last one looked at

    @property
    def is_complete(self) -> bool:
        return self.stopped_by is None

    @property
    def reached(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"{queue.broker_name}/{queue.queue_id}",
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "offset": offset,
                "time_ms": self.times.get(queue),
            }
            for queue, offset in sorted(self.places.items())
        ]

    @property
    def cursor(self) -> str | None:
        return None if self.is_complete else write_cursor(self.places)


class Walker:
    """One walk. ``step`` is -1 for newest first, 1 for oldest first."""

    def __init__(
        self,
        reader: ClusterReader,
        bounds: Mapping[MessageQueue, tuple[int, int]],
        *,
        step: int,
        limit: int,
        matches: Filter | None = None,
        tags: str = "",
    ) -> None:
        self._reader = reader
        self._step = step
        self._limit = limit
        self._matches = matches
        self._expression: Expression = tags or ALL_TAGS
        self._chunk = _FILTERED_CHUNK if matches is not None or tags else _CHUNK
        self._bounds = dict(bounds)
        self._walk = Walk(places={queue: high if step < 0 else low for queue, (low, high) in bounds.items()})
        self._found: dict[MessageQueue, list[ReceivedMessage]] = {queue: [] for queue in bounds}  # next one last
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> Walk:
        walk = self._walk
        ends = asyncio.get_running_loop().time() + SECONDS_MAX
        while len(walk.messages) < self._limit:
            hungry = [queue for queue in self._found if not self._found[queue] and self._has_more(queue)]
            if hungry:
                walk.stopped_by = self._exhausted(ends)
                if walk.stopped_by:
                    self._keep_found()
                    return walk
                await asyncio.gather(*(self._refill(queue) for queue in hungry[: 4 * _AT_ONCE]))
                continue
            ready = [queue for queue, found in self._found.items() if found]
            if not ready:
                return walk
            order = max if self._step < 0 else min
            queue = order(ready, key=lambda one: (self._found[one][-1].store_timestamp, one))
            self._take(queue)
        if any(self._found.values()) or any(map(self._has_more, self._found)):
            walk.stopped_by = "limit"
            self._put_back()
        return walk

    def _has_more(self, queue: MessageQueue) -> bool:
        low, high = self._bounds[queue]
        return low < high

    def _exhausted(self, ends: float) -> str | None:
        if self._walk.scanned >= MESSAGES_MAX:
            return "messages"
        if self._walk.scanned_bytes >= BYTES_MAX:
            return "bytes"
        return "time" if asyncio.get_running_loop().time() >= ends else None

    def _take(self, queue: MessageQueue) -> None:
        message = self._found[queue].pop()
        self._walk.messages.append(message)
        self._walk.places[queue] = message.queue_offset if self._step < 0 else message.queue_offset + 1

    def _keep_found(self) -> None:
        """The budget is spent: what was found so far is shown, as far as there is room."""
        rest = [(message.store_timestamp, queue) for queue, found in self._found.items() for message in found]
        rest.sort(reverse=self._step < 0)
        for _, queue in rest[: self._limit - len(self._walk.messages)]:
            self._take(queue)
        self._put_back()

    def _put_back(self) -> None:
        """Queues with messages that were read and not shown go on with these; the others where reading ended."""
        for queue, (low, high) in self._bounds.items():
            found = self._found[queue]
            if found:
                self._walk.places[queue] = found[-1].queue_offset + (1 if self._step < 0 else 0)
            else:
                self._walk.places[queue] = high if self._step < 0 else low

    async def _refill(self, queue: MessageQueue) -> None:
        """Read the next chunk of a queue."""
        low, high = self._bounds[queue]
        if self._step < 0:
            start, end = max(low, high - self._chunk), high
            self._bounds[queue] = (low, start)
        else:
            start, end = low, min(high, low + self._chunk)
            self._bounds[queue] = (end, high)
        found: list[ReceivedMessage] = []
        at = start
        async with self._room:
            while at < end:
                result = await self._reader.pull(
                    queue, at, max_count=min(self._chunk, end - at), expression=self._expression
                )
                found += [message for message in result.messages if message.queue_offset < end]
                if result.next_offset <= at:
                    break
                at = result.next_offset
        self._walk.scanned += end - start
        self._walk.scanned_bytes += sum(message.size for message in found)
        if found:
            self._walk.times[queue] = (found[0] if self._step < 0 else found[-1]).store_timestamp
        if self._matches is not None:
            found = [message for message in found if self._matches(message)]
        self._found[queue] = found if self._step < 0 else found[::-1]


def write_cursor(places: Mapping[MessageQueue, int]) -> str:
    rows = [[queue.broker_name, queue.queue_id, offset] for queue, offset in sorted(places.items())]
    return base64.urlsafe_b64encode(orjson.dumps(rows)).decode().rstrip("=")


def read_cursor(text: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
    """Where each queue goes on; a queue that the cursor does not know goes on nowhere."""
    by_name = {(queue.broker_name, queue.queue_id): queue for queue in queues}
    try:
        if len(text) > _CURSOR_MAX:
            raise ValueError
        rows = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        found = {(str(broker), int(queue)): int(offset) for broker, queue, offset in rows}
    except (ValueError, TypeError, binascii.Error):
        raise InvalidArgumentError("cursor is none of this list: begin without one") from None
    return {by_name[key]: offset for key, offset in found.items() if key in by_name and 0 <= offset < 2**63}
