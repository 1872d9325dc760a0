"""Setting the offsets of a group on an administrator's behalf: to a time, to an offset, to the end, to another group's.

Two ways to reset. By default the broker does it: the new offset is committed and stays pending until the group's next
pull of that queue learns it. With ``useServerSideResetOffset=false`` it goes as in RocketMQ 4.9: every client of the
group is told to move, and a group without clients is refused, whereupon the tool commits the offsets itself.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable, check_not_broker_group
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pace import PacedTable, paced
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.stats import ResetOffsetBody
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.admin import CloneGroupOffsetRequestHeader, ResetOffsetRequestHeader

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_log = logging.getLogger(__name__)
_PUSH_VERSION_MIN: Final = 28  # 3.0.7-SNAPSHOT: the first clients that can be told
_LIST_LANGUAGE: Final = "CPP"  # reads a list of queues where the others read a map


@dataclass(eq=False, repr=False)
class ResetOffsetHandler:
    """INVOKE_BROKER_TO_RESET_OFFSET and CLONE_GROUP_OFFSET."""

    _options: BrokerOptions
    _store_loop: StoreAccess
    _topics: TopicTable
    _groups: GroupTable
    _offsets: ConsumerOffsets
    _consumers: ConsumerTable

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.reset)
        table.register(RequestCode.CLONE_GROUP_OFFSET, self.clone)

    async def reset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = ResetOffsetRequestHeader.decode(request.ext)
        check_not_broker_group(header.group)
        config = self._topics.find(header.topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic[:255]} does not exist")
        _log.info(
            "%s resets group %r in topic %s to time %d (queue %s, offset %s)",
            connection.peer,
            header.group,
            header.topic,
            header.timestamp,
            header.queue_id,
            header.offset,
        )
        if self._options.use_server_side_reset_offset:
            return await self._reset_here(header, config)
        return await self._reset_at_clients(header, config)

    # By the broker

    async def _reset_here(self, header: ResetOffsetRequestHeader, config: TopicConfig) -> RemotingCommand:
        if header.group not in self._groups:
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group[:255]} does not exist")
        targets = await self._store_loop.run_cold(self._find_targets, header, config)
        for queue_id, offset in targets.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
        await self._offsets.persist_if_changed()
        return RemotingCommand.response(body=(await self._store_loop.run_long(self._render, header.topic, targets))[0])

    def _find_targets(self, header: ResetOffsetRequestHeader, config: TopicConfig) -> dict[int, int]:
        if header.queue_id is None or header.queue_id < 0:
            return {
                queue_id: self._find_target(header.topic, queue_id, header.timestamp)
                for queue_id in range(config.read_queue_nums)
            }
        queue_id = header.queue_id
        if queue_id >= max(config.read_queue_nums, config.write_queue_nums):
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"Topic {header.topic} has no queue {queue_id}")
        if header.offset is None or header.offset == -1:
            return {queue_id: self._find_target(header.topic, queue_id, header.timestamp)}
        low = self._store_loop.store.min_offset(header.topic, queue_id)
        high = self._store_loop.store.max_offset(header.topic, queue_id)
        if not low <= header.offset <= high:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {header.offset} not in consume queue range [{low}-{high}]",
            )
        return {queue_id: header.offset}

    def _find_target(self, topic: str, queue_id: int, timestamp: int) -> int:
        """On a worker thread: the first offset at or after a time; the end for -1."""
        store = self._store_loop.store
        if timestamp < 0:
            return store.max_offset(topic, queue_id)
        return max(0, store.offset_by_time(topic, queue_id, timestamp))

    # By the clients

    async def _reset_at_clients(self, header: ResetOffsetRequestHeader, config: TopicConfig) -> RemotingCommand:
        committed = {
            queue_id: self._offsets.find(header.group, header.topic, queue_id)
            for queue_id in range(config.write_queue_nums)
        }
        if -1 in committed.values():
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group[:255]}> not exist")
        targets = await self._store_loop.run_cold(
            self._find_all_targets, header.topic, list(committed), header.timestamp
        )
        if not header.is_force:
            targets = {queue_id: min(offset, committed[queue_id]) for queue_id, offset in targets.items()}
        online = self._consumers.find_group(header.group)
        if online is None:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group[:255]} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}",
            )
        old = [info for info in online.connections.values() if info.version < _PUSH_VERSION_MIN]
        if old:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"the client does not support this feature. version={old[0].version}"
            )
        body, list_body = await self._store_loop.run_long(self._render, header.topic, targets)
        for info in list(online.connections.values()):
            _push(info, header, list_body if info.language == _LIST_LANGUAGE else body)
        return RemotingCommand.response(body=body)

    def _find_all_targets(self, topic: str, queue_ids: list[int], timestamp: int) -> dict[int, int]:
        return {queue_id: self._find_target(topic, queue_id, timestamp) for queue_id in queue_ids}

    def _render(self, topic: str, offsets: dict[int, int]) -> tuple[bytes, bytes]:
        """The body in its two forms. Any thread."""
        name = self._options.broker_name
        table: dict[MessageQueue, int] = PacedTable()
        for queue_id, offset in paced(offsets.items()):
            table[MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)] = offset
        body = ResetOffsetBody(offset_table=table)
        return body.to_json(), body.to_list_json()

    # Another group's

    async def clone(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Let one group stand where another stands, in one topic or in all of them."""
        header = CloneGroupOffsetRequestHeader.decode(request.ext)
        source, target = header.src_group, check_not_broker_group(header.dest_group)
        if target not in self._groups:
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {target[:255]} does not exist")
        topics = {header.topic} if header.topic and header.topic.strip() else self._offsets.topics_of(source)
        online = None if header.offline else self._consumers.find_group(source)
        for topic in topics:
            if online is not None and online.subscriptions and topic not in online.subscriptions:
                continue  # offsets of the past: the group no longer reads it
            if self._topics.find(topic) is not None:
                self._offsets.clone(source, target, topic)
        _log.info("%s clones the offsets of group %r to %r", connection.peer, source, target)
        await self._offsets.persist_if_changed()
        return RemotingCommand.response()


def _push(info: ClientInfo, header: ResetOffsetRequestHeader, data: bytes) -> None:
    ext = ResetOffsetRequestHeader(
        topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force
    ).encode()
    info.connection.notify(RemotingCommand.request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, data, oneway=True))
