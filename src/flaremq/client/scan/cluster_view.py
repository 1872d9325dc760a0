"""What a cluster holds: its topics as users know them, their queues and how far those reach."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple, TypeVar

from flaremq.client.instance import ClientInstance
from flaremq.client.scan.queue_pulls import Patience, QueuePlace, QueuePulls
from flaremq.client.scan.queue_times import QueueTimes
from flaremq.errors import AccessDeniedError, NotFoundError, UnavailableError
from flaremq.message.topics import is_system_topic, reply_topic
from flaremq.protocol.bodies.route import ClusterInfo
from flaremq.protocol.bodies.stats import TopicStatsTable
from flaremq.protocol.bodies.topic import TopicList
from flaremq.protocol.codes import RequestCode, ResponseCode

_T = TypeVar("_T")
_R = TypeVar("_R")
AT_ONCE: Final = 64  # requests of one kind under way: enough to hide the way there, few enough for any broker
_HEARTBEAT_TOPIC: Final = "DefaultHeartBeatSyncerTopic"  # of RocketMQ's proxy


class Extent(NamedTuple):
    """Both ends of a queue; satisfies ``QueuePlace``."""

    topic: str
    broker: str
    queue_id: int
    min_offset: int
    max_offset: int


async def each(items: Iterable[_T], step: Callable[[_T], Awaitable[_R]]) -> list[_R]:
    """``[await step(item) for item in items]``, some at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item: _T) -> _R:
        async with room:
            return await step(item)

    tasks = [asyncio.create_task(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class ClusterView:
    """Questions to name servers and brokers. Event loop thread only."""

    def __init__(self, instance: ClientInstance, pulls: QueuePulls) -> None:
        self._instance = instance
        self._pulls = pulls
        self._known: set[str] = set()  # topics that were there once

    async def topics(self, *, system: bool = False) -> list[str]:
        """The topics of users, and on request those that servers keep messages of their own in.

        Those named after clusters and brokers hold nothing and are always left out.
        """
        topics = await self._when_back(self._user_topics, is_known=bool(self._known))
        return sorted(topic for topic in topics if system or not is_system_topic(topic))

    async def _user_topics(self) -> set[str]:
        transport = self._instance.transport
        reply = await transport.ask_name_server(
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, what="the list of topics"
        )
        topics = set(TopicList.from_json(reply.body_bytes).topic_list)
        reply = await transport.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, what="the list of clusters")
        info = ClusterInfo.from_json(reply.body_bytes)
        own = set(info.broker_addr_table) | set(info.cluster_addr_table) | {_HEARTBEAT_TOPIC}
        own |= {reply_topic(cluster) for cluster in info.cluster_addr_table}
        return topics - own

    async def extents(self, topics: Sequence[str], *, must_exist: bool = True) -> list[Extent]:
        """Every readable queue of these topics as of now; NotFoundError names a topic that has none."""
        found = await self._when_back(
            lambda: self._extents_now(topics, must_exist=must_exist), is_known=self._known.issuperset(topics)
        )
        self._known |= {extent.topic for extent in found}
        return found

    async def _when_back(self, ask: Callable[[], Awaitable[_R]], *, is_known: bool) -> _R:
        """Ask until there is an answer, if there was one before: servers that are being restarted come back knowing
        nothing, and learn it from each other. A first question that nobody answers fails at once: more likely the
        address is wrong."""
        patience = Patience(self._pulls.retry_seconds)
        while True:
            try:
                return await ask()
            except (NotFoundError, UnavailableError):
                if not is_known or not await patience.wait():
                    raise

    async def _extents_now(self, topics: Sequence[str], *, must_exist: bool) -> list[Extent]:
        found = await each(topics, self._extents_of)
        for topic, extents in zip(topics, found, strict=True):
            if must_exist and extents is None:
                raise await self._missing(topic)
            if must_exist and not extents:
                raise NotFoundError(f"topic {topic!r} has no queue that may be read: its permission forbids it")
        return sorted(extent for extents in found for extent in extents or ())

    async def _extents_of(self, topic: str) -> list[Extent] | None:
        route = await self._instance.routes.refresh(topic)
        if route is None:
            return None
        queues: dict[str, set[int]] = {}
        for queue in route.read_queues:
            queues.setdefault(queue.broker_name, set()).add(queue.queue_id)
        brokers = sorted(queues)
        found = await asyncio.gather(*(self._extents_on(topic, name, queues[name]) for name in brokers))
        return [extent for extents in found for extent in extents]

    async def _missing(self, topic: str) -> NotFoundError:
        near = get_close_matches(topic, await self.topics(), 3, 0.6)
        hint = f"; there is {' and '.join(near)}" if near else ""
        servers = ", ".join(self._instance.transport.name_servers)
        return NotFoundError(f"topic {topic!r} is unknown to the name servers {servers}{hint}")

    async def _extents_on(self, topic: str, broker: str, queue_ids: set[int]) -> list[Extent]:
        return await self._patiently(topic, broker, lambda: self._ask_extents(topic, broker, queue_ids))

    async def _patiently(self, topic: str, broker: str, ask: Callable[[], Awaitable[_R]]) -> _R:
        """Ask a broker until it answers or has had its time."""
        patience = Patience(self._pulls.retry_seconds)
        while True:
            try:
                return await ask()
            except UnavailableError as error:
                failure = error
            if not await patience.wait():
                raise UnavailableError(
                    f"broker {broker} did not tell the ends of topic {topic}'s queues for "
                    f"{self._pulls.retry_seconds:.0f} seconds: {failure}"
                ) from failure
            await self._pulls.look_around(topic)

    async def _ask_extents(self, topic: str, broker: str, queue_ids: set[int]) -> list[Extent]:
        any_queue = Extent(topic, broker, min(queue_ids), 0, 0)
        address = await self._pulls.master_address(any_queue)
        # Asked for one end, a broker of ours first catches up with what it has acknowledged, for all queues.
        await self._end(address, RequestCode.GET_MAX_OFFSET, any_queue)
        ends = await self._ask_status(topic, address)
        for queue_id in sorted(queue_ids - ends.keys()):  # brokers of 4.9 leave out queues that are not written to
            queue = Extent(topic, broker, queue_id, 0, 0)
            low, high = await asyncio.gather(
                self._end(address, RequestCode.GET_MIN_OFFSET, queue),
                self._end(address, RequestCode.GET_MAX_OFFSET, queue),
            )
            ends[queue_id] = (low, high)
        return [
            Extent(topic, broker, queue_id, max(ends[queue_id][0], 0), max(*ends[queue_id], 0))
            for queue_id in sorted(queue_ids)
        ]

    async def _ask_status(self, topic: str, address: str) -> dict[int, tuple[int, int]]:
        """The ends of queues as the topic's status has them; nothing if the broker does not tell."""
        try:
            reply = await self._instance.transport.call(
                address,
                RequestCode.GET_TOPIC_STATS_INFO,
                {"topic": topic},
                accept=(ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION),
                what=f"the status of topic {topic!r}",
            )
        except AccessDeniedError:  # an account that may only consume still gets the ends one by one
            return {}
        if reply.code != ResponseCode.SUCCESS:
            return {}
        table = TopicStatsTable.from_json(reply.body_bytes).offset_table
        return {queue.queue_id: (end.min_offset, end.max_offset) for queue, end in table.items()}

    async def offset_by_time(self, queue: QueuePlace, timestamp_ms: int) -> int:
        """The first offset whose message was stored at or after a time; the end of the queue if there is none."""
        await self._instance.routes.find(queue.topic)
        return await self._patiently(queue.topic, queue.broker, lambda: self._find_time(queue, timestamp_ms))

    async def _find_time(self, queue: QueuePlace, timestamp_ms: int) -> int:
        address = await self._pulls.master_address(queue)
        low, high, hint = await asyncio.gather(
            self._end(address, RequestCode.GET_MIN_OFFSET, queue),
            self._end(address, RequestCode.GET_MAX_OFFSET, queue),
            self._end(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp_ms),
        )
        return await QueueTimes(self._pulls, queue, timestamp_ms, low=max(low, 0), high=max(high, 0)).find(hint)

    async def _end(self, address: str, code: RequestCode, queue: QueuePlace, timestamp_ms: int | None = None) -> int:
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker}
        if timestamp_ms is not None:
            ext["timestamp"] = str(timestamp_ms)
        reply = await self._instance.transport.call(address, code, ext, what=f"the ends of {queue.topic}")
        return reply.int_field("offset")
