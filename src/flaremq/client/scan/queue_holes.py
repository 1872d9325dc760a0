"""Offsets that a broker passes over: what its queue says about them.

Without a filter a broker leaves out an offset for one of two reasons. The entry is a filler, which a broker writes
where a queue does not begin at 0: no message was ever there. Or the entry points to a record that cannot be read any
more. The queue's own entries tell which.
"""

from __future__ import annotations

from typing import Final

from flaremq.client.instance import ClientInstance
from flaremq.client.scan.queue_pulls import QueuePlace, QueuePulls
from flaremq.errors import CorruptionError, ReplyError
from flaremq.protocol.bodies.stats import QueryConsumeQueueResponseBody
from flaremq.protocol.codes import RequestCode

_FILLER_SIZE: Final = 2**31 - 1


class QueueHoles:
    """Judges holes. Event loop thread only."""

    def __init__(self, instance: ClientInstance, pulls: QueuePulls) -> None:
        self._instance = instance
        self._pulls = pulls

    async def check(self, queue: QueuePlace, start: int, end: int) -> None:
        """CorruptionError if the offsets [start, end), which the broker passed over, have messages by its queue."""
        for offset in sorted({start, end - 1}):
            if not await self._is_filler(queue, offset):
                raise CorruptionError(
                    f"queue {queue.queue_id} of topic {queue.topic} has offsets {start} to {end - 1}, but broker "
                    f"{queue.broker} does not give their messages: records are damaged there; verify its store, or set "
                    f"failOnDataLoss=false to read what is left"
                )

    async def _is_filler(self, queue: QueuePlace, offset: int) -> bool:
        _, address = await self._pulls.address(queue)
        ext = {
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "index": str(offset),
            "count": "1",
            "consumerGroup": "",
        }
        try:
            reply = await self._instance.transport.call(address, RequestCode.QUERY_CONSUME_QUEUE, ext)
        except ReplyError:
            return True  # a broker that does not tell gets the benefit of the doubt
        units = QueryConsumeQueueResponseBody.from_json(reply.body_bytes).queue_data
        return not units or units[0].physic_size == _FILLER_SIZE
