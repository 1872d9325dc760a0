"""ClusterBackend: the brokers of a cluster behind the calls, asked over the remoting protocol.

All calls share one connection to a broker; a client is registered on connections of its own (``members``). Brokers are
asked in the name of the proxy: what a caller may do, the proxy's own guard has decided before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from flaremq.clock import Clock
from flaremq.errors import FlareMQError, UnavailableError
from flaremq.grpc.backends.backend import BrokerQueues, Member, SendOutcome, TopicQueues
from flaremq.grpc.backends.requests import send_outcome, send_request
from flaremq.grpc.call import Call
from flaremq.grpc.plain.acks import PlainAck
from flaremq.grpc.plain.sends import PlainSend
from flaremq.grpc.rules.outgoing import Outgoing
from flaremq.protocol.bodies.client import HeartbeatData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.proxy.members import MemberLink
from flaremq.proxy.name_servers import NameServers, Remembered
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.options import RemotingOptions

_MESSAGE_TYPE: Final = "message.type"
_SEND_SECONDS: Final = 10.0
_ASK_SECONDS: Final = 3.0


class ClusterBackend:
    """Used by the calls of one door. Event loop only."""

    def __init__(self, name_servers: list[str], remoting: RemotingOptions, clock: Clock, *, seconds: float) -> None:
        """``remoting``: connections to servers, with what signs requests; ``seconds``: how long answers are good."""
        self._remoting = remoting
        self._clock = clock
        self._client = RemotingClient(remoting)
        self._names = NameServers(self._client, name_servers, seconds=seconds)
        self._topics = Remembered(self._look_at_topic, seconds)
        self._groups = Remembered(self._look_at_group, seconds)
        self._links: dict[Member, MemberLink] = {}

    async def start(self) -> None:
        """UnavailableError if no name server can be reached: better told now than to every client."""
        await self._names.masters()

    async def stop(self) -> None:
        links, self._links = list(self._links.values()), {}
        await asyncio.gather(*(link.close() for link in links))
        await self._client.close()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # What there is

    def topic_at_hand(self, name: str) -> TopicQueues | None:
        return None

    def can_place(self) -> bool:
        return False

    def place(self, topic: str, queue_id: int, message: PlainSend, peer: str) -> int:
        return -1

    def can_settle(self) -> bool:
        return False

    def settle(self, topic: str, group: str, ack: PlainAck) -> bool:
        return False

    async def find_topic(self, name: str) -> TopicQueues | None:
        return await self._topics.get(name)

    async def _look_at_topic(self, name: str) -> TopicQueues | None:
        route = await self._names.route(name)
        if route is None:
            return None
        masters = {broker.broker_name for broker in route.broker_datas if 0 in broker.broker_addrs}
        brokers = tuple(
            BrokerQueues(
                broker=queues.broker_name, read=queues.read_queue_nums, write=queues.write_queue_nums, perm=queues.perm
            )
            for queues in sorted(route.queue_datas, key=lambda queues: queues.broker_name)
            if queues.broker_name in masters
        )
        message_type = await self._message_type(name, brokers[0].broker) if brokers else ""
        return TopicQueues(name=name, message_type=message_type, brokers=brokers)

    async def _message_type(self, topic: str, broker: str) -> str:
        """What brokers of 4.9 cannot say, they do not check either: there all kinds may go to all topics."""
        request = RemotingCommand.request(RequestCode.GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
        reply = await self.ask(broker, request)
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return "MIXED"
        if reply.code:
            return ""
        return TopicConfig.from_json(reply.body_bytes).attributes.get(_MESSAGE_TYPE, "")

    async def find_group(self, name: str) -> SubscriptionGroupConfig | None:
        return await self._groups.get(name)

    async def _look_at_group(self, name: str) -> SubscriptionGroupConfig:
        """As a broker has it. One that no broker has yet is as by default: brokers make it, or refuse what it asks."""
        request_ext = {"group": name, "groupName": name}
        for broker in await self._names.masters():
            request = RemotingCommand.request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, dict(request_ext))
            try:
                reply = await self.ask(broker, request)
            except UnavailableError:
                continue
            if reply.code == ResponseCode.SUCCESS and reply.body_bytes:
                return SubscriptionGroupConfig.from_json(reply.body_bytes)
        return SubscriptionGroupConfig(group_name=name)

    # Requests

    async def ask(
        self, broker: str, request: RemotingCommand, call: Call | None = None, *, seconds: float = _ASK_SECONDS
    ) -> RemotingCommand:
        address = await self._names.master(broker)
        try:
            return await self._client.request(address, request, seconds)
        except UnavailableError:
            if self._client.connected(address) is None:
                self._names.doubt()  # its master may be another one by now
                self._topics.doubt()
            raise

    def ask_now(
        self, broker: str, request: RemotingCommand, call: Call | None = None, *, seconds: float = _ASK_SECONDS
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        return self.ask(broker, request, call, seconds=seconds)

    async def send(self, broker: str, queue_id: int, message: Outgoing, call: Call) -> SendOutcome:
        request = send_request(broker, queue_id, message)
        return send_outcome(await self.ask(broker, request, call, seconds=_SEND_SECONDS))

    # Clients

    async def register(self, member: Member, data: HeartbeatData) -> None:
        link = self._links.get(member)
        if link is None:
            link = self._links[member] = MemberLink(member, self._remoting)
        await link.tell(await self._brokers_of(data), data)

    async def _brokers_of(self, data: HeartbeatData) -> dict[str, str]:
        """The masters that have topics of a client; all of them while it has none."""
        topics = {producer.group_name for producer in data.producer_data_set}
        for consumer in data.consumer_data_set:
            topics.update(subscription.topic for subscription in consumer.subscription_data_set)
        names: set[str] = set()
        for topic in topics:
            try:
                found = await self.find_topic(topic)
            except (RequestError, FlareMQError):
                continue
            if found is not None:
                names.update(queues.broker for queues in found.brokers)
        masters = await self._names.masters()
        return {name: address for name, address in masters.items() if not names or name in names}

    async def unregister(self, member: Member) -> None:
        link = self._links.pop(member, None)
        if link is not None:
            await link.close()
