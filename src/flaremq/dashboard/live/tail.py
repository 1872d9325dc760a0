"""The tail of a topic: messages as they come in, for one page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.live.hub import Stream, event
from flaremq.dashboard.views.messages import unique_rows
from flaremq.errors import FlareMQError
from flaremq.message.tags import ALL_TAGS
from flaremq.protocol.bodies.queue import MessageQueue

_PERIOD: Final = 1.0
_ROWS_MAX: Final = 100  # in one event; of more only the newest are shown
_PULLS_MAX: Final = 8  # of one queue in one look
_AT_ONCE: Final = 8


class Tail:
    """Runs until it is cancelled."""

    def __init__(
        self, reader: ClusterReader, topic: str, tag: str, stream: Stream, write: Callable[[Any], bytes]
    ) -> None:
        self._reader = reader
        self._topic = topic
        self._expression = tag or ALL_TAGS
        self._stream = stream
        self._write = write
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._places: dict[MessageQueue, int] = {}

    async def run(self) -> None:
        first = True
        while not self._stream.dropped.is_set():
            try:
                found, dropped = await self._look()
            except FlareMQError:
                found, dropped = [], 0
            if first or found or dropped:
                rows = unique_rows(found)
                self._stream.put(event("messages", self._write({"items": rows, "dropped": dropped})))
            first = False
            await asyncio.sleep(_PERIOD)

    async def _look(self) -> tuple[list[ReceivedMessage], int]:
        status = await self._reader.topic_status(self._topic)
        ends = {queue: max(end.max_offset, 0) for queue, end in status.items()}
        moved = [queue for queue, end in ends.items() if end > self._places.get(queue, end)]
        for queue, end in ends.items():
            self._places.setdefault(queue, end)
        parts = await asyncio.gather(*(self._read(queue, ends[queue]) for queue in moved))
        found = [message for part, _ in parts for message in part]
        dropped = sum(count for _, count in parts)
        found.sort(key=lambda message: (message.store_timestamp, message.queue, message.queue_offset))
        return found[-_ROWS_MAX:], dropped + max(0, len(found) - _ROWS_MAX)

    async def _read(self, queue: MessageQueue, end: int) -> tuple[list[ReceivedMessage], int]:
        """What came into one queue; of too much its end."""
        start = max(self._places[queue], end - _ROWS_MAX)
        dropped = start - self._places[queue]
        found: list[ReceivedMessage] = []
        at = start
        async with self._room:
            for _ in range(_PULLS_MAX):
                if at >= end:
                    break
                result = await self._reader.pull(queue, at, expression=self._expression)
                found += result.messages
                if result.next_offset <= at:
                    break
                at = result.next_offset
        self._places[queue] = max(at, end)
        return found, dropped
