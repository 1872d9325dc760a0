"""Pulls: one request for messages of one queue, and what a broker answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from flaremq.client.consumer.received import ReceivedMessage, read_messages
from flaremq.client.consumer.subscription import Expression, subscription_data
from flaremq.client.errors import reply_error
from flaremq.client.instance import ClientInstance
from flaremq.errors import RemoteProtocolError
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import (
    PULL_COMMITS_OFFSET,
    PULL_HAS_SUBSCRIPTION,
    PULL_MAY_SUSPEND,
    RequestCode,
    ResponseCode,
)
from flaremq.protocol.command import RemotingCommand, RequestError

_BYTES_MAX: Final = "262144"


class PullStatus(Enum):
    """What became of a pull."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MESSAGE"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"  # the offset is outside of the queue, or was reset: go on at ``next_offset``


_STATUS: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullReply:
    """A pull's answer, messages not taken apart."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    broker_id: int  # of the replica to pull from next
    body: bytes


@dataclass(frozen=True, slots=True)
class PullResult:
    """A pull's answer, for applications."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class PullApi:
    """Pulls for one group. Event loop thread only."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def read(
        self, queue: MessageQueue, offset: int, expression: Expression, *, count_max: int, hold_ms: int, timeout: float
    ) -> PullResult:
        """Messages that an expression wants, by a request of its own; nobody's progress changes."""
        subscription = subscription_data(queue.topic, expression, self._instance.clock.now_ms())
        reply = await self.pull(
            queue,
            offset,
            subscription=subscription,
            count_max=count_max,
            hold_ms=hold_ms,
            timeout=timeout,
            is_subscription_sent=True,
        )
        messages = read_messages(reply.body, queue)
        if subscription.tags_set:
            messages = [message for message in messages if message.tags in subscription.tags_set]
        return PullResult(reply.status, messages, reply.next_offset, reply.min_offset, reply.max_offset)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        subscription: SubscriptionData,
        count_max: int,
        hold_ms: int,
        timeout: float,
        broker_id: int = 0,
        commit_offset: int = -1,
        is_subscription_sent: bool = False,
    ) -> PullReply:
        """Ask for messages from ``offset`` on; the broker may hold the request until some come.

        ``commit_offset`` of 0 or more is reported along with it, to a master. With ``is_subscription_sent`` the request
        says what it wants, else the broker goes by the group's last heartbeat.
        """
        flags = PULL_MAY_SUSPEND if hold_ms > 0 else 0
        if commit_offset >= 0 and broker_id == 0 and self._instance.routes.has_master(queue.broker_name):
            flags |= PULL_COMMITS_OFFSET
        ext = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(count_max),
            "commitOffset": str(max(commit_offset, 0)),
            "suspendTimeoutMillis": str(hold_ms),
            "subVersion": str(subscription.sub_version),
            "maxMsgBytes": _BYTES_MAX,
            "expressionType": subscription.expression_type,
            "bname": queue.broker_name,
        }
        if is_subscription_sent:
            flags |= PULL_HAS_SUBSCRIPTION
            ext["subscription"] = subscription.sub_string
        ext["sysFlag"] = str(flags)
        transport = self._instance.transport
        address = self._instance.routes.reader(queue.broker_name, broker_id)
        connection = transport.connected(address) or await transport.connect(address)
        reply = await connection.call(transport.command(RequestCode.PULL_MESSAGE, ext), timeout)
        status = _STATUS.get(reply.code)
        if status is None:
            raise reply_error(reply, f"pulling from {queue.topic!r} queue {queue.queue_id}", address)
        return _read(status, reply)


def _read(status: PullStatus, reply: RemotingCommand) -> PullReply:
    try:
        return PullReply(
            status,
            reply.int_field("nextBeginOffset"),
            reply.int_field("minOffset"),
            reply.int_field("maxOffset"),
            reply.int_field("suggestWhichBrokerId"),
            reply.body_bytes if status is PullStatus.FOUND else b"",
        )
    except RequestError as error:
        raise RemoteProtocolError(f"the reply to a pull cannot be read: {error.remark}") from None
