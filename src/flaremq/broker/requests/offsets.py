"""Offsets: what groups have consumed, what queues hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable, check_not_broker_group
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.consume import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome


@dataclass(eq=False, repr=False)
class OffsetHandler:
    """Questions about offsets, and commits."""

    _topics: TopicTable
    _groups: GroupTable
    _offsets: ConsumerOffsets
    _store_loop: StoreAccess
    _is_cold: Callable[[str, int, int], bool]  # Puller.is_cold: whether a record has left the memory
    # Dispatching.catch_up: shows what is durable: a client often asks right after a send.
    _catch_up: Callable[[], None] = lambda: None

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.QUERY_CONSUMER_OFFSET, self.query_consumer_offset, "client")
        table.register(RequestCode.UPDATE_CONSUMER_OFFSET, self.update_consumer_offset, "client")
        table.register(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.search_offset, "client")
        table.register(RequestCode.GET_MAX_OFFSET, self.max_offset)
        table.register(RequestCode.GET_MIN_OFFSET, self.min_offset)
        table.register(RequestCode.GET_EARLIEST_MSG_STORETIME, self.earliest_store_time, "client")
        table.register(RequestCode.GET_ALL_CONSUMER_OFFSET, self.all_consumer_offsets)

    # Of groups

    def query_consumer_offset(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """Where a group goes on. A new group starts a young queue at its beginning, whatever the client prefers."""
        header = QueryConsumerOffsetRequestHeader.decode(request.ext)
        offset = self._offsets.find(header.consumer_group, header.topic, header.queue_id)
        if offset >= 0:
            return _offset_response(offset)
        if header.set_zero_if_not_found is False:
            remark = "Not found, do not set to zero, maybe this group boot first"
        elif self._is_young(header.topic, header.queue_id):
            return _offset_response(0)
        else:
            remark = "Not found, maybe this group consumer boot first"
        raise RequestError(ResponseCode.QUERY_NOT_FOUND, remark)

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Everything since the first message is there and in memory; an empty queue has no age."""
        self._catch_up()
        store = self._store_loop.store
        if store.min_offset(topic, queue_id) > 0 or store.max_offset(topic, queue_id) == 0:
            return False
        return not self._is_cold(topic, queue_id, 0)

    def update_consumer_offset(self, connection: Connection, request: RemotingCommand) -> Outcome:
        header = UpdateConsumerOffsetRequestHeader.decode(request.ext)
        topic, queue_id = header.topic, header.queue_id
        group = check_not_broker_group(header.consumer_group)
        config = self._topics.find(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic[:255]} not exist!")
        if group not in self._groups:
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:255]} not exist!")
        if not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"QueueId[{queue_id}] is illegal, topic:[{topic}]")
        if self._offsets.has_reset(group, topic, queue_id):
            return RemotingCommand.response(remark="Offset has been previously reset")
        self._offsets.commit(group, topic, queue_id, header.commit_offset)
        return RemotingCommand.response()

    async def all_consumer_offsets(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=await self._store_loop.run_long(self._offsets.renderer()))

    # Of queues; what does not exist has offset 0

    def max_offset(self, connection: Connection, request: RemotingCommand) -> Outcome:
        header = GetMaxOffsetRequestHeader.decode(request.ext)
        self._catch_up()
        return _offset_response(self._store_loop.store.max_offset(header.topic, header.queue_id))

    def min_offset(self, connection: Connection, request: RemotingCommand) -> Outcome:
        header = GetMinOffsetRequestHeader.decode(request.ext)
        return _offset_response(self._store_loop.store.min_offset(header.topic, header.queue_id))

    async def search_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = SearchOffsetRequestHeader.decode(request.ext)
        boundary = "UPPER" if header.is_upper else "LOWER"
        self._catch_up()
        find = self._store_loop.store.offset_by_time
        return _offset_response(
            await self._store_loop.run_cold(find, header.topic, header.queue_id, header.timestamp, boundary)
        )

    async def earliest_store_time(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = GetEarliestMsgStoretimeRequestHeader.decode(request.ext)
        self._catch_up()
        found = await self._store_loop.run_cold(
            self._store_loop.store.earliest_store_time, header.topic, header.queue_id
        )
        timestamp = GetEarliestMsgStoretimeResponseHeader(timestamp=-1 if found is None else found)
        return RemotingCommand.response(ext=timestamp.encode())


def _offset_response(offset: int) -> RemotingCommand:
    return RemotingCommand.response(ext=OffsetResponseHeader(offset=offset).encode())
