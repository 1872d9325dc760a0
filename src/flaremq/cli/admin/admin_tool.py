"""AdminTool: the admin client with what only a command line asks for.

Mostly requests to one address, where the library speaks of topics and groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from flaremq.client.admin.admin import Admin
from flaremq.errors import NotFoundError
from flaremq.protocol.bodies.client import ConsumerConnection
from flaremq.protocol.bodies.group import SubscriptionGroupWrapper
from flaremq.protocol.bodies.stats import ConsumeStats, QueryConsumeQueueResponseBody, ResetOffsetBody
from flaremq.protocol.bodies.topic import TopicConfig


class AdminTool(Admin):
    """Use it inside ``async with``."""

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Addresses of the brokers of a topic, by name."""
        return await self._brokers_of(topic)

    async def change_brokers(
        self, values: Mapping[str, str], *, broker: str | None, cluster: str | None
    ) -> dict[str, str]:
        """Change options of brokers; what each has to say to that, by name."""
        return await self._change_brokers(values, broker, cluster)

    async def change_name_servers(self, values: Mapping[str, str]) -> dict[str, str]:
        """The same for all name servers, by address."""
        return await self._change_name_servers(values)

    async def update_topic_at(self, address: str, config: TopicConfig, attributes: str = "") -> None:
        """Make a topic, or change it, on one broker. ``attributes`` is a list of changes, ``+a=b,-c``."""
        await self._update_topic([address], config, attributes)

    async def delete_group_at(self, address: str, group: str, *, remove_offset: bool) -> None:
        await self._delete_group([address], group, remove_offset)

    async def all_groups_at(self, address: str) -> SubscriptionGroupWrapper:
        """The settings of all groups of one broker, and their version."""
        return await self._all_groups(address)

    async def system_topics_at(self, address: str) -> set[str]:
        """The topics a broker made for itself."""
        return await self._system_topics_at(address)

    async def known_progress(self, group: str, topic: str | None = None) -> ConsumeStats:
        """How far a group is; ``NotFoundError`` if there is no such group, for which brokers answer an empty table."""
        stats = await self.group_progress(group, topic=topic)
        if not stats.offset_table and group not in await self.list_groups():
            raise NotFoundError(f"group {group!r} does not exist")
        return stats

    async def connections_at(self, address: str, group: str) -> ConsumerConnection:
        """The consumers of a group that are connected to one broker."""
        return await self._connections_at(address, group)

    async def reset_queue_at(
        self, address: str, group: str, topic: str, queue_id: int, *, timestamp_ms: int, offset: int | None
    ) -> int | None:
        """Let a group go on elsewhere in one queue of one broker; where that is."""
        at = -1 if offset is None else offset
        (reply,) = await self._reset([address], group, topic, timestamp_ms, queue_id=queue_id, offset=at)
        if not reply.body:
            return offset
        table = ResetOffsetBody.from_json(reply.body_bytes).offset_table
        return next((value for queue, value in table.items() if queue.queue_id == queue_id), offset)

    async def change_write_permission(self, broker_name: str, change: Literal["add", "wipe"]) -> dict[str, int]:
        """Put a broker into the routes of producers or take it out; of how many topics, by name server."""
        return await self._change_write_permission(broker_name, change)

    async def consume_queue_at(
        self, address: str, topic: str, queue_id: int, *, index: int, count: int, group: str = ""
    ) -> QueryConsumeQueueResponseBody:
        """Units of a consume queue of one broker."""
        return await self._consume_queue_at(address, topic, queue_id, index, count, group)
