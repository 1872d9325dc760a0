"""Offsets: how far groups have come, and letting them go on from elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from flaremq.client.admin.base import java_flag
from flaremq.client.admin.topics import TopicAdmin
from flaremq.client.arguments import check_queue, check_text, check_whole_number
from flaremq.client.consumer.queue_offset import queue_offset
from flaremq.errors import NotFoundError
from flaremq.message.topics import retry_topic
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.stats import ConsumeStats, OffsetWrapper, ResetOffsetBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand

LATEST: Final = -1  # as a timestamp: the end of each queue


class OffsetAdmin(TopicAdmin):
    """Orders about the progress of groups."""

    async def group_progress(self, group: str, *, topic: str | None = None) -> ConsumeStats:
        """How far a group is behind in each queue, of one topic or all."""
        ext = {"consumerGroup": group, **({"topic": topic} if topic else {})}
        table: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        addresses = (await self._brokers_of_group(group, topic)).values()
        what = f"the progress of group {group!r}"
        for stats in await self._ask_each(ConsumeStats, addresses, RequestCode.GET_CONSUME_STATS, ext, what=what):
            table |= stats.offset_table
            tps += stats.consume_tps
        return ConsumeStats(offset_table=dict(sorted(table.items())), consume_tps=tps)

    async def reset_offset(
        self, group: str, topic: str, timestamp_ms: int = LATEST, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Let a group go on from a time (``-1``: from the end), whether it is connected or not; the new offsets."""
        table: dict[MessageQueue, int] = {}
        brokers = await self._brokers_of(topic)
        replies = await self._reset(
            brokers.values(), group, topic, timestamp_ms, force=force, accept=(ResponseCode.CONSUMER_NOT_ONLINE,)
        )
        for name, reply in zip(brokers, replies, strict=True):
            if reply.code == ResponseCode.CONSUMER_NOT_ONLINE:  # old brokers leave it to us if nobody is there
                table |= await self._reset_offline(group, topic, name, timestamp_ms)
            elif reply.body:
                table |= ResetOffsetBody.from_json(reply.body_bytes).offset_table
        return dict(sorted(table.items()))

    async def _reset(
        self,
        addresses: Iterable[str],
        group: str,
        topic: str,
        timestamp_ms: int,
        *,
        force: bool = True,
        queue_id: int = -1,
        offset: int = -1,
        accept: Collection[int] = (),
    ) -> list[RemotingCommand]:
        """-1 is every queue, and no offset."""
        ext = {"topic": topic, "group": group, "timestamp": str(timestamp_ms), "isForce": java_flag(force)}
        ext |= {"queueId": str(queue_id), "offset": str(offset)}
        what = f"resetting group {group!r} on topic {topic!r}"
        return await self._call_each(
            addresses, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext, accept=accept, what=what
        )

    async def _reset_offline(
        self, group: str, topic: str, broker_name: str, timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        table = {}
        for queue in (await self._instance.routes.find(topic)).read_queues:
            if queue.broker_name == broker_name:
                offset = await (
                    self.max_offset(queue) if timestamp_ms < 0 else self.offset_by_time(queue, timestamp_ms)
                )
                await self.commit_offset(group, queue, offset)
                table[queue] = offset
        return table

    async def clone_offsets(self, source: str, target: str, topic: str) -> dict[MessageQueue, int]:
        """Give one group the offsets of another; those that were set."""
        stats = await self.group_progress(source, topic=topic)
        offsets = {queue: entry.consumer_offset for queue, entry in stats.offset_table.items() if queue.topic == topic}
        if not offsets:
            raise NotFoundError(f"group {source!r} has no offsets of topic {topic!r}")
        for queue, offset in offsets.items():
            await self.commit_offset(target, queue, offset)
        return offsets

    async def commit_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the offset of a group in one queue."""
        check_queue(queue)
        check_whole_number(offset, "an offset")
        ext = _group_and_queue(group, queue) | {"commitOffset": str(offset)}
        what = f"setting the offset of group {group!r}"
        await self._call(await self._keeper_of(queue), RequestCode.UPDATE_CONSUMER_OFFSET, ext, what=what)

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset of a group in one queue, None if it has none."""
        check_queue(queue)
        ext = _group_and_queue(group, queue) | {"setZeroIfNotFound": "false"}
        code, accept = RequestCode.QUERY_CONSUMER_OFFSET, (ResponseCode.QUERY_NOT_FOUND,)
        reply = await self._call(await self._keeper_of(queue), code, ext, accept=accept)
        return None if reply.code == ResponseCode.QUERY_NOT_FOUND else reply.int_field("offset")

    async def min_offset(self, queue: MessageQueue) -> int:
        """Offset of the oldest message of a queue."""
        return await self._queue_offset(RequestCode.GET_MIN_OFFSET, queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Offset the next message of a queue will get."""
        return await self._queue_offset(RequestCode.GET_MAX_OFFSET, queue)

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Offset of the first message of a queue that was stored at this time or later."""
        check_whole_number(timestamp_ms, "a time")
        return await self._queue_offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, {"timestamp": str(timestamp_ms)})

    async def _queue_offset(self, code: RequestCode, queue: MessageQueue, more: dict[str, str] | None = None) -> int:
        await self._keeper_of(queue)  # so that the route is known
        return await queue_offset(self._instance, code, queue, more)

    async def _brokers_of_group(self, group: str, topic: str | None) -> dict[str, str]:
        """Where a group is known: at the brokers that have its retry topic, or the topic asked for, or at all."""
        check_text(group, "a group")
        for name in (retry_topic(group), topic):
            if name is not None:
                try:
                    return await self._brokers_of(name)
                except NotFoundError:
                    continue
        return await self.masters()


def _group_and_queue(group: str, queue: MessageQueue) -> dict[str, str]:
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "bname": queue.broker_name,
    }
