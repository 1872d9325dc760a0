"""ClusterReader: the admin client with the questions of a dashboard, mostly to one address.

No request goes to an address that somebody named. A message id holds an address, and so may a query: whatever it is, it
must be one that the name servers tell. ``_call``, the one way out, keeps that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from flaremq.client.admin.admin import Admin
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.errors import InvalidArgumentError
from flaremq.protocol.bodies.client import ConsumerConnection
from flaremq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.stats import (
    ConsumeStatsList,
    QueryConsumeQueueResponseBody,
    ResetOffsetBody,
    TopicStatsTable,
)
from flaremq.protocol.bodies.topic import KVTable, TopicConfig, TopicConfigSerializeWrapper
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand

_SHORT: Final = 3.0  # seconds: what is asked every second must not wait for a broker that is gone
_LONG: Final = 15.0  # over all groups of a broker
_T = TypeVar("_T")


class ClusterReader(Admin):
    """Use it inside ``async with``."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._known = set(self.name_servers)
        self._tables: dict[tuple[str, int], tuple[bytes, Any]] = {}

    async def _call(
        self,
        address: str,
        code: RequestCode,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        accept: Collection[int] = (),
        what: str = "",
        timeout: float | None = None,
    ) -> RemotingCommand:
        if address not in self._known:
            await self._learn_addresses()
            if address not in self._known:
                raise InvalidArgumentError(f"no broker of this cluster has the address {address}")
        return await super()._call(address, code, ext, body, accept=accept, what=what, timeout=timeout)

    async def _learn_addresses(self) -> None:
        info = await self.cluster_info()
        told = {address for data in info.broker_addr_table.values() for address in data.broker_addrs.values()}
        self._known = set(self.name_servers) | told

    @property
    def is_running(self) -> bool:
        """Between start and close."""
        return self._instance.is_running

    # What the sampler asks again and again

    async def runtime(self, address: str) -> Mapping[str, str]:
        """What a broker tells about itself."""
        code, what = RequestCode.GET_BROKER_RUNTIME_INFO, f"the state of {address}"
        return KVTable.from_json((await self._call(address, code, what=what, timeout=_SHORT)).body_bytes).table

    async def topic_table(self, address: str) -> Mapping[str, TopicConfig]:
        """All topics of a broker; the same object for as long as it answers the same."""
        return await self._table(
            address,
            RequestCode.GET_ALL_TOPIC_CONFIG,
            lambda body: TopicConfigSerializeWrapper.from_json(body).topic_config_table,
        )

    async def group_table(self, address: str) -> Mapping[str, SubscriptionGroupConfig]:
        """All groups of a broker, likewise."""
        return await self._table(
            address,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            lambda body: SubscriptionGroupWrapper.from_json(body).subscription_group_table,
        )

    async def _table(self, address: str, code: RequestCode, read: Callable[[bytes], _T]) -> _T:
        body = (await self._call(address, code, what=f"{code.name} of {address}", timeout=_LONG)).body_bytes
        key = (address, int(code))
        known = self._tables.get(key)
        if known is None or known[0] != body:
            known = self._tables[key] = (body, read(body))
        table: _T = known[1]
        return table

    async def progress_at(self, address: str) -> ConsumeStatsList:
        """How far all groups of a broker are, in one answer."""
        code, ext = RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}
        return await self._ask(ConsumeStatsList, address, code, ext, what="the progress of all groups", timeout=_LONG)

    async def ends_at(self, address: str, topic: str) -> TopicStatsTable:
        """Both ends of the queues of a topic on one broker."""
        code, what = RequestCode.GET_TOPIC_STATS_INFO, f"the status of topic {topic!r}"
        return await self._ask(TopicStatsTable, address, code, {"topic": topic}, what=what, timeout=_SHORT)

    async def members_at(self, address: str, group: str) -> ConsumerConnection:
        """The consumers of a group that are connected to one broker."""
        return await self._connections_at(address, group)

    # What pages and actions ask once

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Addresses of the brokers of a topic, by name."""
        return await self._brokers_of(topic)

    async def units_at(
        self, address: str, topic: str, queue_id: int, *, index: int, count: int
    ) -> QueryConsumeQueueResponseBody:
        """Units of a consume queue of one broker."""
        return await self._consume_queue_at(address, topic, queue_id, index, count, "")

    async def reset_queue_at(self, address: str, group: str, topic: str, queue_id: int, *, offset: int) -> int:
        """Let a group go on at an offset in one queue of one broker; where that is."""
        (reply,) = await self._reset([address], group, topic, 0, queue_id=queue_id, offset=offset)
        if not reply.body:
            return offset
        table = ResetOffsetBody.from_json(reply.body_bytes).offset_table
        return next((value for queue, value in table.items() if queue.queue_id == queue_id), offset)

    async def update_topic_at(self, address: str, config: TopicConfig, attributes: str = "") -> None:
        """Make a topic, or change it, on one broker. ``attributes`` is a list of changes, ``+a=b,-c``."""
        await self._update_topic([address], config, attributes)
        self._instance.routes.forget(config.topic_name)

    async def change_write_permission(self, broker_name: str, *, write: bool) -> dict[str, int]:
        """Put a broker into the routes of producers or take it out; of how many topics, by name server."""
        return await self._change_write_permission(broker_name, "add" if write else "wipe")

    async def recall_at(self, address: str, topic: str, handle: str) -> str:
        """Take back a timed message; its id."""
        ext = {"topic": topic, "recallHandle": handle, "producerGroup": "TOOLS"}
        reply = await self._call(address, RequestCode.RECALL_MESSAGE, ext, what=f"recalling a message of {topic!r}")
        return reply.field("msgId")

    async def newest(self, queue: MessageQueue, count: int) -> list[ReceivedMessage]:
        """The last messages of a queue."""
        end = await self.max_offset(queue)
        low = max(await self.min_offset(queue), end - count)
        found: list[ReceivedMessage] = []
        while low < end:
            result = await self.pull(queue, low)
            found += [message for message in result.messages if message.queue_offset < end]
            if result.next_offset <= low:
                break
            low = result.next_offset
        return found
