"""Rebalance by the broker (RocketMQ 5, ``clientRebalance=false``): a client asks which queues it reads, and how."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.groups import check_not_broker_group
from flaremq.broker.catalog.names import check_group, check_topic
from flaremq.broker.catalog.request_modes import POP, PULL, RequestModes
from flaremq.broker.catalog.table_saver import Run, run_inline
from flaremq.broker.members.consumers import BROADCASTING, ConsumerTable
from flaremq.broker.options import BrokerOptions
from flaremq.message.topics import is_retry_topic
from flaremq.protocol.bodies.queue import (
    MessageQueue,
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.queue_allocation import BROKER_STRATEGIES, STRATEGIES, allocate_for_pop

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)

_QUEUES_INLINE: Final = 512  # rebalancing asks often and for few queues; those are shared out at once
FindQueues = Callable[[str], Awaitable[list[MessageQueue] | None]]


@dataclass(eq=False, repr=False)
class AssignmentHandler:
    """QUERY_ASSIGNMENT and the request modes."""

    _options: BrokerOptions
    _consumers: ConsumerTable
    _modes: RequestModes
    _find_queues: FindQueues  # the readable queues of a topic in the whole cluster; None if it has no route
    _run_long: Run = run_inline  # StoreLoop.run_long: shares out and renders

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.QUERY_ASSIGNMENT, self.query, "client")
        table.register(RequestCode.SET_MESSAGE_REQUEST_MODE, self.set_mode)
        table.register(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, self.all_modes)

    async def query(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """The share of one client. No list at all tells it to keep what it has, an empty one to give up everything."""
        body = QueryAssignmentRequestBody.from_json(request.body_bytes)
        check_topic(body.topic)
        check_group(body.consumer_group)
        mode = self._modes.find(body.topic, body.consumer_group)
        queues = await self._find_queues(body.topic)
        client_ids = sorted(self._consumers.client_ids(body.consumer_group))
        if queues is not None and len(queues) > _QUEUES_INLINE:
            return RemotingCommand.response(body=await self._run_long(self._render, body, mode, queues, client_ids))
        return RemotingCommand.response(body=self._render(body, mode, queues, client_ids))

    def _render(
        self,
        body: QueryAssignmentRequestBody,
        mode: SetMessageRequestModeRequestBody,
        queues: list[MessageQueue] | None,
        client_ids: list[str],
    ) -> bytes:
        """Any thread."""
        share = None if queues is None else self._share(body, mode, queues, client_ids)
        assignments = None
        if share is not None:
            assignments = tuple(MessageQueueAssignment(message_queue=queue, mode=mode.mode) for queue in share)
        return QueryAssignmentResponseBody(message_queue_assignments=assignments).to_json()

    def _share(
        self,
        body: QueryAssignmentRequestBody,
        mode: SetMessageRequestModeRequestBody,
        queues: list[MessageQueue],
        client_ids: list[str],
    ) -> list[MessageQueue] | None:
        if body.message_model == BROADCASTING or not self._options.server_load_balancer_enable:
            return queues
        if not client_ids or body.strategy_name not in BROKER_STRATEGIES:
            _log.warning(
                "no assignment of %s for %s of %s: %s",
                body.topic,
                body.client_id[:255],
                body.consumer_group,
                f"strategy {body.strategy_name[:64]!r} is unknown" if client_ids else "nobody is registered",
            )
            return None
        strategy = STRATEGIES[body.strategy_name]
        queues = sorted(queues)
        if mode.mode == POP:
            return allocate_for_pop(strategy, body.client_id, client_ids, queues, mode.pop_share_queue_num)
        return strategy(body.client_id, client_ids, queues)

    async def set_mode(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        mode = SetMessageRequestModeRequestBody.from_json(request.body_bytes)
        check_topic(mode.topic)
        check_not_broker_group(check_group(mode.consumer_group))
        if is_retry_topic(mode.topic):
            raise RequestError(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if mode.mode not in (PULL, POP):
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"mode {mode.mode[:64]!r} is neither PULL nor POP")
        self._modes.update(mode)
        _log.info("%s sets %s", connection.peer, mode)
        await self._modes.save_changes()
        return RemotingCommand.response()

    def all_modes(self, connection: Connection, request: RemotingCommand) -> Outcome:
        return RemotingCommand.response(body=self._modes.to_json())
