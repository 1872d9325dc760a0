"""Backend: what the calls need of brokers, wherever those are.

A broker that opens the door itself answers in its own process (``broker.grpc_door``); ``flaremq proxy`` asks the
brokers of a cluster over the wire (``flaremq.proxy``). Both speak RocketMQ's remoting requests, so a call does not know
which of them it has, and whatever guards a request on its own port does so here.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from flaremq.grpc.call import Call
from flaremq.grpc.plain.acks import PlainAck
from flaremq.grpc.plain.sends import PlainSend
from flaremq.grpc.rules.outgoing import Outgoing
from flaremq.protocol.bodies.client import HeartbeatData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.command import RemotingCommand

PERM_READ = 4
PERM_WRITE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerQueues:
    """The queues of a topic on the master of one broker."""

    broker: str
    read: int
    write: int
    perm: int
    endpoint: str = ""  # "host:port" of its own gRPC door; empty: it is reached through the one that answers

    @property
    def is_readable(self) -> bool:
        return self.perm & PERM_READ != 0

    @property
    def is_writable(self) -> bool:
        return self.perm & PERM_WRITE != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQueues:
    """A topic: where it has queues, and what its attribute ``message.type`` says (empty: nothing)."""

    name: str
    message_type: str
    brokers: tuple[BrokerQueues, ...]  # sorted by name


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOutcome:
    """What a broker made of a message."""

    code: int  # of its reply
    remark: str | None
    queue_offset: int = -1
    physical_offset: int = -1
    recall_handle: str = ""


class Member(Protocol):
    """A client, as brokers register it and ask it back."""

    client_id: str
    language: str
    peer: str
    account: str

    async def asked(self, broker: str, request: RemotingCommand) -> RemotingCommand | None:
        """The client's answer to a request of a broker; None for those that expect none."""


class Backend(Protocol):
    """Brokers. Event loop only. Whatever cannot be done is a FlareMQError; a reply may have any code."""

    def now_ms(self) -> int: ...

    def topic_at_hand(self, name: str) -> TopicQueues | None:
        """What ``find_topic`` would give, if nobody has to be asked for it."""

    async def find_topic(self, name: str) -> TopicQueues | None:
        """A topic as it is now, or was a short time ago."""

    async def find_group(self, name: str) -> SubscriptionGroupConfig | None:
        """A consumer group; it comes into being by this where brokers allow that."""

    async def ask(
        self, broker: str, request: RemotingCommand, call: Call | None = None, *, seconds: float = 3.0
    ) -> RemotingCommand:
        """A broker's reply. ``call``: on whose behalf; a request that waits ends early when its call does."""

    def ask_now(
        self, broker: str, request: RemotingCommand, call: Call | None = None, *, seconds: float = 3.0
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        """The same; the reply itself where it is at hand."""

    def send(self, broker: str, queue_id: int, message: Outgoing, call: Call) -> Awaitable[SendOutcome]:
        """Store a message."""

    def can_place(self) -> bool:
        """Whether messages can be stored here without waiting for anything, which ``place`` does."""

    def place(self, topic: str, queue_id: int, message: PlainSend, peer: str) -> int:
        """Store a plain message at once: its offset in its queue; -1: nothing was done, ``send`` it."""

    def can_settle(self) -> bool:
        """Whether acknowledgements can be taken here without waiting for anything, which ``settle`` does."""

    def settle(self, topic: str, group: str, ack: PlainAck) -> bool:
        """Acknowledge a message that was given from this topic, if nothing has to be waited for; False: nothing was
        done, ``ask``."""

    async def register(self, member: Member, data: HeartbeatData) -> None:
        """Tell all brokers of a client what it is, or that it is still there."""

    async def unregister(self, member: Member) -> None:
        """The client is gone."""
