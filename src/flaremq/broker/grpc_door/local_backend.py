"""LocalBackend: the broker itself behind the calls.

A call's request goes to the handler that answers the same request on the broker's port: what is checked there is
checked here, and both worlds see the same topics, groups, clients and messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from flaremq.broker.catalog.topic_attributes import MESSAGE_TYPE
from flaremq.broker.grpc_door.connections import (
    NOBODY,
    CallConnection,
    MemberConnection,
    SendConnection,
    begin,
    serve,
    stored_form,
)
from flaremq.broker.parts import BrokerState
from flaremq.errors import NotFoundError
from flaremq.grpc.backends.backend import BrokerQueues, Member, SendOutcome, TopicQueues
from flaremq.grpc.backends.requests import send_request
from flaremq.grpc.call import Call
from flaremq.grpc.plain.acks import PlainAck
from flaremq.grpc.plain.sends import PlainSend
from flaremq.grpc.rules.outgoing import Outgoing
from flaremq.protocol.bodies.client import HeartbeatData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import VERSION, RequestCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.handlers import HandlerTable

_TOPICS_MAX: Final = 65_536  # whose queues are remembered
_HOSTS_MAX: Final = 4_096
_NOBODY: Final = "127.0.0.1:0"


class LocalBackend:
    """The calls' way into a broker. Event loop only; as long-lived as the state and the table it is given."""

    def __init__(self, state: BrokerState, table: HandlerTable) -> None:
        self._state = state
        self._table = table
        self._name = state.options.broker_name
        self._name_bytes = self._name.encode()
        self._members: dict[Member, MemberConnection] = {}
        self._topics: dict[str, tuple[TopicConfig, TopicQueues]] = {}
        self._hosts: dict[str, bytes] = {}  # of clients, as records have them

    def now_ms(self) -> int:
        return self._state.clock.now_ms()

    def topic_at_hand(self, name: str) -> TopicQueues | None:
        config = self._state.topics.find(name)
        if config is None:
            return None
        known = self._topics.get(name)
        if known is None or known[0] is not config:
            if len(self._topics) >= _TOPICS_MAX:
                self._topics.clear()
            known = self._topics[name] = config, self._queues_of(config)
        return known[1]

    def _queues_of(self, config: TopicConfig) -> TopicQueues:
        queues = BrokerQueues(
            broker=self._name, read=config.read_queue_nums, write=config.write_queue_nums, perm=config.perm
        )
        message_type = config.attributes.get(MESSAGE_TYPE, "")
        return TopicQueues(name=config.topic_name, message_type=message_type, brokers=(queues,))

    async def find_topic(self, name: str) -> TopicQueues | None:
        return self.topic_at_hand(name)

    async def find_group(self, name: str) -> SubscriptionGroupConfig | None:
        config = self._state.groups.find(name)
        if not self._state.groups.is_saved:
            await self._state.groups.save_changes()
        return config

    async def ask(
        self, broker: str, request: RemotingCommand, call: Call | None = None, *, seconds: float = 3.0
    ) -> RemotingCommand:
        outcome = self.ask_now(broker, request, call, seconds=seconds)
        return outcome if isinstance(outcome, RemotingCommand) else await outcome

    def ask_now(
        self, broker: str, request: RemotingCommand, call: Call | None = None, *, seconds: float = 3.0
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        if broker != self._name:
            raise NotFoundError(f"there is no broker {broker[:128]!r} here")
        connection = CallConnection(_NOBODY if call is None else call.peer)
        if call is not None:
            call.on_cancel(connection.close)
        return serve(self._table, connection, request, seconds)

    def send(self, broker: str, queue_id: int, message: Outgoing, call: Call) -> asyncio.Future[SendOutcome]:
        """Done at once where a message need not wait for a disk or for others."""
        connection = SendConnection(call.peer)
        begin(self._table, connection, send_request(broker, queue_id, message))
        return connection.outcome

    def can_place(self) -> bool:
        store_loop = self._state.store_loop
        return not (store_loop.durability.acknowledges_later or store_loop.driver.refuses)

    def place(self, topic: str, queue_id: int, message: PlainSend, peer: str) -> int:
        place, host = self._table.place, self._hosts.get(peer)
        if host is None:
            if len(self._hosts) >= _HOSTS_MAX:
                self._hosts.clear()
            host = self._hosts[peer] = stored_form(peer)
        if place is None or host == NOBODY:
            return -1
        return place(topic, queue_id, message.body, message.properties, message.born_ms, host)

    def can_settle(self) -> bool:
        return self._table.settle is not None

    def settle(self, topic: str, group: str, ack: PlainAck) -> bool:
        settle = self._table.settle
        return (
            settle is not None
            and ack.broker == self._name_bytes
            and settle(topic, group, ack.queue_id, ack.offset, ack.start_offset, ack.pop_time)
        )

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
