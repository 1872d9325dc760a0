"""LocalBackend: the broker itself behind the calls.

A call's request goes to the handler that answers the same request on the broker's port: what is checked there is
checked here, and both worlds see the same topics, groups, clients and messages.
"""

from __future__ import annotations

from typing import Final

from flaremq.broker.catalog.topic_attributes import MESSAGE_TYPE
from flaremq.broker.grpc_door.connections import CallConnection, MemberConnection, serve
from flaremq.broker.parts import BrokerState
from flaremq.errors import NotFoundError
from flaremq.grpc.backends.backend import BrokerQueues, Member, SendOutcome, TopicQueues
from flaremq.grpc.backends.requests import send_outcome, send_request
from flaremq.grpc.call import Call
from flaremq.grpc.rules.outgoing import Outgoing
from flaremq.protocol.bodies.client import HeartbeatData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import VERSION, RequestCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.handlers import HandlerTable

_SEND_SECONDS: Final = 10.0
_NOBODY: Final = "127.0.0.1:0"


class LocalBackend:
    """The calls' way into a broker. Event loop only; as long-lived as the state and the table it is given."""

    def __init__(self, state: BrokerState, table: HandlerTable) -> None:
        self._state = state
        self._table = table
        self._name = state.options.broker_name
        self._members: dict[Member, MemberConnection] = {}

    def now_ms(self) -> int:
        return self._state.clock.now_ms()

    async def find_topic(self, name: str) -> TopicQueues | None:
        config = self._state.topics.find(name)
        if config is None:
            return None
        queues = BrokerQueues(
            broker=self._name, read=config.read_queue_nums, write=config.write_queue_nums, perm=config.perm
        )
        return TopicQueues(name=name, message_type=config.attributes.get(MESSAGE_TYPE, ""), brokers=(queues,))

    async def find_group(self, name: str) -> SubscriptionGroupConfig | None:
        config = self._state.groups.find(name)
        if not self._state.groups.is_saved:
            await self._state.groups.save_changes()
        return config

    async def ask(
        self, broker: str, request: RemotingCommand, call: Call | None = None, *, seconds: float = 3.0
    ) -> RemotingCommand:
        if broker != self._name:
            raise NotFoundError(f"there is no broker {broker[:128]!r} here")
        connection = CallConnection(_NOBODY if call is None else call.peer)
        if call is not None:
            call.on_cancel(connection.close)
        return await serve(self._table, connection, request, seconds)

    async def send(self, broker: str, queue_id: int, message: Outgoing, call: Call) -> SendOutcome:
        request = send_request(broker, queue_id, message)
        return send_outcome(await self.ask(broker, request, call, seconds=_SEND_SECONDS))

    # Clients

    async def register(self, member: Member, data: HeartbeatData) -> None:
        connection = self._members.get(member)
        if connection is None or not connection.is_open:
            connection = self._members[member] = MemberConnection(member, self._name)
        request = RemotingCommand.request(RequestCode.HEART_BEAT, body=data.to_json())
        request.language, request.version = member.language, VERSION
        handler, _ = self._table.entries[RequestCode.HEART_BEAT]
        outcome = handler(connection, request)
        if outcome is not None and not isinstance(outcome, RemotingCommand):
            outcome = await outcome
        if outcome is not None and outcome.code:
            raise RequestError(outcome.code, outcome.remark or "the broker does not register the client")

    async def unregister(self, member: Member) -> None:
        connection = self._members.pop(member, None)
        if connection is not None:
            connection.close()
