"""Administration of consumer groups."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from flaremq.broker.catalog.attribute_limits import check_attribute_limits
from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable, check_not_broker_group
from flaremq.broker.catalog.names import check_group
from flaremq.broker.catalog.table_saver import Run, run_inline
from flaremq.broker.pace import PacedTable
from flaremq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.admin import DeleteSubscriptionGroupRequestHeader, GetSubscriptionGroupConfigRequestHeader

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_log = logging.getLogger(__name__)
_RETRY_QUEUES_MAX = 1024


class GroupHandler:
    """Create, change, delete and show groups."""

    def __init__(self, groups: GroupTable, offsets: ConsumerOffsets, run_long: Run = run_inline) -> None:
        self._run_long = run_long  # StoreLoop.run_long: renders whole tables
        self._groups = groups
        self._offsets = offsets

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.update)
        table.register(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self.get_all)
        table.register(RequestCode.DELETE_SUBSCRIPTIONGROUP, self.delete)
        table.register(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, self.get)

    async def update(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        config = SubscriptionGroupConfig.from_json(request.body_bytes)
        check_not_broker_group(check_group(config.group_name))
        if config.retry_queue_nums > _RETRY_QUEUES_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"a retry topic has at most {_RETRY_QUEUES_MAX} queues, not {config.retry_queue_nums}",
            )
        check_attribute_limits(config.attributes)
        self._groups.update(config)
        _log.info("%s sets group %s", connection.peer, config.to_value())
        await self._groups.save_changes()
        return RemotingCommand.response()

    async def delete(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = DeleteSubscriptionGroupRequestHeader.decode(request.ext)
        self._groups.delete(check_not_broker_group(header.group_name))
        if header.with_offsets:
            self._offsets.remove_group(header.group_name)
        _log.info("%s deletes group %s", connection.peer, header.group_name)
        await self._groups.save_changes()
        await self._offsets.persist_if_changed()
        return RemotingCommand.response()

    async def get(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """A group, created where autoCreateSubscriptionGroup allows it: its client is about to consume under it."""
        group = GetSubscriptionGroupConfigRequestHeader.decode(request.ext).group
        config = self._groups.find(group)
        if config is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {group[:255]}"
            )
        await self._groups.save_changes()
        return RemotingCommand.response(body=config.to_json())

    async def get_all(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=await self._run_long(_render, self._groups.wrapper()))


def _render(groups: SubscriptionGroupWrapper) -> bytes:
    """Any thread but the loop's."""
    return replace(groups, subscription_group_table=PacedTable(groups.subscription_group_table)).to_json()
