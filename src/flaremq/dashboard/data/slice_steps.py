"""What has to be asked one by one: ends of topics and members of groups. A slice at a time, within a budget.

Whoever opens a page says what it shows (:meth:`SliceSteps.want_topics`): those come first and are read every second or
two. The rest takes turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from flaremq.clock import Clock
from flaremq.dashboard.data.group_state import GroupState
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.reasons import reason_of
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.data.topic_state import Ends, TopicState
from flaremq.errors import FlareMQError, NotFoundError, ReplyError
from flaremq.protocol.bodies.client import ConsumerConnection, ProducerInfo
from flaremq.protocol.codes import ResponseCode

TOPICS_A_SLICE: Final = 30
GROUPS_A_SLICE: Final = 20
_AT_ONCE: Final = 8
_WANTED_FOR_MS: Final = 10_000
_FRESH_MS: Final = 450  # two slices a second
_MEMBERS_FRESH_MS: Final = 4_500


class SliceSteps:
    """Steps of the sampler."""

    def __init__(self, state: ClusterState, reader: ClusterReader, clock: Clock) -> None:
        self._state = state
        self._reader = reader
        self._clock = clock
        self._room = asyncio.Semaphore(_AT_ONCE)

    def want_topics(self, topics: Iterable[TopicState]) -> None:
        """Somebody looks at these."""
        now_ms = self._clock.now_ms()
        for topic in topics:
            topic.wanted_ms = now_ms

    async def read_ends(self) -> None:
        """A slice of topics."""
        now_ms = self._clock.now_ms()
        stale = [topic for topic in self._state.topics.values() if now_ms - topic.tried_ms >= _FRESH_MS]
        if len(stale) > TOPICS_A_SLICE:
            stale.sort(key=lambda topic: (now_ms - topic.wanted_ms > _WANTED_FOR_MS, topic.tried_ms))
        await asyncio.gather(*(self.read_topic(topic) for topic in stale[:TOPICS_A_SLICE]))

    async def read_topic(self, topic: TopicState) -> None:
        """The ends of all queues of one topic."""
        ends: dict[tuple[str, int], Ends] = {}
        for name in topic.configs:
            master = self._state.master_of(name)
            if master is None:
                topic.failure = "unreachable"
                continue
            try:
                async with self._room:
                    table = await self._reader.ends_at(master.address, topic.name)
            except FlareMQError as error:
                topic.failure = reason_of(error).reason  # what was known stays, and its age tells
                topic.tried_ms = self._clock.now_ms()
                return
            for queue, end in table.offset_table.items():
                low, high = max(end.min_offset, 0), max(end.max_offset, end.min_offset, 0)
                ends[name, queue.queue_id] = Ends(low, high, max(end.last_update_timestamp, 0))
        topic.take_ends(ends, self._clock.now_ms(), self._clock.monotonic())
        topic.tried_ms = topic.ends_ms

    async def read_members(self) -> None:
        """A slice of groups: who is connected."""
        now_ms = self._clock.now_ms()
        stale = [group for group in self._state.groups.values() if now_ms - group.members_ms >= _MEMBERS_FRESH_MS]
        stale.sort(key=lambda group: group.members_ms)
        await asyncio.gather(*(self.read_group(group) for group in stale[:GROUPS_A_SLICE]))

    async def read_group(self, group: GroupState) -> None:
        """Who is in one group, of all brokers that have it."""
        found: dict[str, ConsumerConnection] = {}
        group.members_ms = self._clock.now_ms()
        for name in group.configs:
            master = self._state.master_of(name)
            if master is None:
                continue
            try:
                async with self._room:
                    found[name] = await self._reader.members_at(master.address, group.name)
            except (NotFoundError, ReplyError) as error:
                if isinstance(error, ReplyError) and error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    group.failure = reason_of(error).reason
                    return
            except FlareMQError as error:
                group.failure = reason_of(error).reason
                return
        group.failure = ""
        group.note_online(bool(found), self._clock.now_ms())
        group.members = _merged(list(found.values())) if found else None
        group.subscriptions = {}
        for name, connection in found.items():
            for topic, data in connection.subscription_table.items():
                group.subscriptions.setdefault(topic, {})[name] = data.sub_string

    async def read_producers(self) -> None:
        """All producers of all brokers: one question a broker, which 4.9 does not know."""
        state = self._state
        producers: dict[str, dict[str, ProducerInfo]] = {}
        try:
            for broker in state.masters:
                for group, clients in (await self._reader.all_producers(broker.address)).items():
                    for client in clients:
                        producers.setdefault(group, {})[client.client_id] = client
        except FlareMQError as error:
            state.producers, state.producers_failure = None, reason_of(error).reason
            return
        state.producers = producers
        state.producers_failure = ""


def _merged(found: list[ConsumerConnection]) -> ConsumerConnection:
    """Who is connected to any of the brokers."""
    clients = {client.client_id: client for connection in found for client in connection.connection_set}
    first = found[0]
    subscriptions = {topic: data for connection in found for topic, data in connection.subscription_table.items()}
    return ConsumerConnection(
        connection_set=tuple(clients[client_id] for client_id in sorted(clients)),
        subscription_table=subscriptions,
        consume_type=first.consume_type,
        message_model=first.message_model,
        consume_from_where=first.consume_from_where,
    )
