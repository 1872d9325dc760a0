"""The offset of a time, exactly.

Brokers differ in what they answer: RocketMQ 4.9 gives the message *nearest* to the time, any of several that were
stored in the same millisecond, and the last message for a time after it; 5.x has its own cases at both ends. So their
answer is where the search begins: the messages on both sides of it are looked at, and if they do not fit, the search
goes on from there in growing steps. A right answer costs one more round trip.
"""

from __future__ import annotations

import asyncio
from typing import Final

from flaremq.client.scan.queue_pulls import QueuePlace, QueuePulls
from flaremq.errors import RemoteProtocolError
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.layout import RECORD_SIZE_MIN

_AFTER_ALL: Final = 2**63 - 1  # the time of the message that will be stored next


class QueueTimes:
    """Finds one time in one queue. Event loop thread only."""

    def __init__(self, pulls: QueuePulls, queue: QueuePlace, timestamp_ms: int, *, low: int, high: int) -> None:
        self._pulls = pulls
        self._queue = queue
        self._timestamp_ms = timestamp_ms
        self._low = low
        self._high = high
        self._seen: dict[int, tuple[int, int]] = {}

    async def find(self, hint: int) -> int:
        """The first offset in [low, high) whose message was stored at or after the time, else ``high``."""
        low, high = self._low, self._high
        if low >= high:
            return high
        hint = min(max(hint, low), high)
        before, _ = await asyncio.gather(self._is_late(max(hint - 1, low)), self._is_late(hint))
        if before:
            high = max(hint - 1, low)
            step = 1
            while high > low:
                at = max(low, high - step)
                if not await self._is_late(at):
                    low = at + 1
                    break
                high, step = at, 2 * step
        elif not await self._is_late(hint):
            low = hint + 1
            step = 1
            while low < high:
                at = min(high, low + step)
                if await self._is_late(at):
                    high = at
                    break
                low, step = at + 1, 2 * step
        else:
            low = high = hint
        while low < high:
            middle = (low + high) // 2
            if await self._is_late(middle):
                high = middle
            else:
                low = middle + 1
        return min((await self._first_from(low))[0], self._high)

    async def _is_late(self, offset: int) -> bool:
        return (await self._first_from(offset))[1] >= self._timestamp_ms

    async def _first_from(self, offset: int) -> tuple[int, int]:
        """Offset and store time of the first message at or after an offset."""
        if offset >= self._high:
            return self._high, _AFTER_ALL
        if offset not in self._seen:
            self._seen[offset] = await first_message(self._pulls, self._queue, offset, self._high)
        return self._seen[offset]


async def first_message(pulls: QueuePulls, queue: QueuePlace, offset: int, end: int) -> tuple[int, int]:
    """Offset and store time of the first message at or after an offset; ``end`` and no time if there is none before."""
    while offset < end:
        pulled = await pulls.pull(queue, offset, 1)
        if pulled.records:
            if len(pulled.records) < RECORD_SIZE_MIN:
                raise RemoteProtocolError(f"{len(pulled.records)} bytes in the reply to a pull are no record")
            message = MessageExt(pulled.records)
            return max(message.queue_offset, offset), message.store_timestamp
        forward = max(pulled.next_offset, pulled.min_offset)
        if forward <= offset:
            break
        offset = forward
    return end, _AFTER_ALL
