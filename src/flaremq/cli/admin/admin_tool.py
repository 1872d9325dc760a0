"""AdminTool: the admin client with what only a command line asks for.

Mostly requests to one address, where the library speaks of topics and groups.
"""

from __future__ import annotations

from flaremq.client.admin.admin import Admin
from flaremq.client.admin.base import java_flag
from flaremq.errors import NotFoundError
from flaremq.message.topics import AUTO_CREATE_TOPIC
from flaremq.protocol.bodies.client import ConsumerConnection
from flaremq.protocol.bodies.group import SubscriptionGroupWrapper
from flaremq.protocol.bodies.queue import SetMessageRequestModeRequestBody
from flaremq.protocol.bodies.stats import (
    ConsumeStats,
    QueryConsumeQueueResponseBody,
    ResetOffsetBody,
)
from flaremq.protocol.bodies.topic import KVTable, TopicConfig, TopicList
from flaremq.protocol.codes import RequestCode


class AdminTool(Admin):
    """Use it inside ``async with``."""

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Addresses of the brokers of a topic, by name."""
        return await self._brokers_of(topic)

    async def update_topic_at(self, address: str, config: TopicConfig, attributes: str = "") -> None:
        """Make a topic, or change it, on one broker. ``attributes`` is a list of changes, ``+a=b,-c``."""
        ext = {
            "topic": config.topic_name,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": str(config.read_queue_nums),
            "writeQueueNums": str(config.write_queue_nums),
            "perm": str(config.perm),
            "topicFilterType": config.topic_filter_type,
            "topicSysFlag": str(config.topic_sys_flag),
            "order": java_flag(config.order),
            "attributes": attributes,
            "force": "false",
        }
        what = f"creating topic {config.topic_name!r}"
        await self._call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext, what=what)

    async def delete_group_at(self, address: str, group: str, *, remove_offset: bool) -> None:
        ext = {
            "groupName": group,
            "cleanOffset": java_flag(remove_offset),
            "removeOffset": java_flag(remove_offset),
        }
        await self._call(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, ext, what=f"deleting group {group!r}")

    async def all_groups_at(self, address: str) -> SubscriptionGroupWrapper:
        """The settings of all groups of one broker, and their version."""
        reply = await self._call(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, what="the list of groups")
        return SubscriptionGroupWrapper.from_json(reply.body_bytes)

    async def system_topics_at(self, address: str) -> set[str]:
        """The topics a broker made for itself."""
        reply = await self._call(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, what="the system topics")
        return set(TopicList.from_json(reply.body_bytes).topic_list)

    async def status_at(self, address: str) -> dict[str, str]:
        """What the broker at an address, master or slave, tells about itself."""
        reply = await self._call(address, RequestCode.GET_BROKER_RUNTIME_INFO, what=f"the state of {address}")
        return dict(sorted(KVTable.from_json(reply.body_bytes).table.items()))

    async def known_progress(self, group: str, topic: str | None = None) -> ConsumeStats:
        """How far a group is; ``NotFoundError`` if there is no such group, for which brokers answer an empty table."""
        stats = await self.group_progress(group, topic=topic)
        if not stats.offset_table and group not in await self.list_groups():
            raise NotFoundError(f"group {group!r} does not exist")
        return stats

    async def connections_at(self, address: str, group: str) -> ConsumerConnection:
        """The consumers of a group that are connected to one broker."""
        what = f"the consumers of group {group!r}"
        ext = {"consumerGroup": group}
        reply = await self._call(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, ext, what=what)
        return ConsumerConnection.from_json(reply.body_bytes)

    async def reset_queue_at(
        self, address: str, group: str, topic: str, queue_id: int, *, timestamp_ms: int, offset: int | None
    ) -> int | None:
        """Let a group go on elsewhere in one queue of one broker; where that is."""
        ext = {
            "topic": topic,
            "group": group,
            "timestamp": str(timestamp_ms),
            "isForce": "true",
            "queueId": str(queue_id),
            "offset": str(-1 if offset is None else offset),
        }
        what = f"resetting group {group!r} on topic {topic!r}"
        reply = await self._call(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext, what=what)
        if not reply.body:
            return offset
        table = ResetOffsetBody.from_json(reply.body_bytes).offset_table
        return next((value for queue, value in table.items() if queue.queue_id == queue_id), offset)

    async def set_mode_at(self, address: str, topic: str, group: str, mode: str, share_queues: int) -> None:
        """Let a group read a topic by PULL or POP on one broker."""
        body = SetMessageRequestModeRequestBody(
            topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share_queues
        )
        await self._call(
            address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.to_json(), what=f"setting the mode of {group!r}"
        )

    async def change_write_permission(self, broker_name: str, *, is_added: bool) -> dict[str, int]:
        """Put a broker into the routes of producers or take it out; of how many topics, by name server."""
        code = RequestCode.ADD_WRITE_PERM_OF_BROKER if is_added else RequestCode.WIPE_WRITE_PERM_OF_BROKER
        field = "addTopicCount" if is_added else "wipeTopicCount"
        ext = {"brokerName": broker_name}
        what = f"changing the permission of broker {broker_name!r}"
        replies = {address: await self._call(address, code, ext, what=what) for address in self.name_servers}
        return {address: reply.int_field(field) for address, reply in replies.items()}

    async def consume_queue_at(
        self, address: str, topic: str, queue_id: int, *, index: int, count: int, group: str = ""
    ) -> QueryConsumeQueueResponseBody:
        """Units of a consume queue of one broker."""
        ext = {
            "topic": topic,
            "queueId": str(queue_id),
            "index": str(index),
            "count": str(count),
            "consumerGroup": group,
        }
        reply = await self._call(address, RequestCode.QUERY_CONSUME_QUEUE, ext, what=f"the queue of {topic!r}")
        return QueryConsumeQueueResponseBody.from_json(reply.body_bytes)
