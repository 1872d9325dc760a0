"""Messages: finding them by key, id, unique key or place; who consumed one; letting a consumer have one again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from flaremq.client.admin.groups import GroupAdmin
from flaremq.client.arguments import check_text, check_whole_number
from flaremq.client.consumer.pulling import PullApi, PullResult
from flaremq.client.consumer.received import ReceivedMessage, read_messages
from flaremq.client.consumer.subscription import Expression
from flaremq.client.errors import queue_name
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError, ReplyError
from flaremq.message.message_id import decode_message_id
from flaremq.message.tags import ALL_TAGS
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.running import ConsumeMessageDirectlyResult
from flaremq.protocol.bodies.stats import QueryConsumeQueueResponseBody
from flaremq.protocol.codes import RequestCode, ResponseCode

_TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # every broker has it, so reading along leaves no group behind
_END_OF_TIME: Final = 2**63 - 1


class TrackType(Enum):
    """How a message stands with a group."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUMED_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    PULL = "PULL"
    BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class MessageTrack:
    """One group's view of a message."""

    group: str
    track_type: TrackType
    remark: str = ""


class MessageAdmin(GroupAdmin):
    """Orders about messages."""

    async def query_by_key(
        self, topic: str, key: str, *, max_count: int = 64, begin_ms: int = 0, end_ms: int = _END_OF_TIME
    ) -> list[ReceivedMessage]:
        """Messages with a business key, newest last."""
        found = await self._query(topic, key, max_count, begin_ms, end_ms, is_unique=False)
        return [message for message in found if key in message.keys][:max_count]

    async def query_by_unique_key(
        self, topic: str, unique_key: str, *, begin_ms: int = 0, end_ms: int = _END_OF_TIME
    ) -> list[ReceivedMessage]:
        """Messages with a unique key: the message id that producers and consumers see. Retries share one."""
        found = await self._query(topic, unique_key, 32, begin_ms, end_ms, is_unique=True)
        return [message for message in found if message.uniq_key == unique_key]

    async def _query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, *, is_unique: bool
    ) -> list[ReceivedMessage]:
        check_text(key, "a key")
        if not key:
            raise InvalidArgumentError("a query needs a key")
        ext = {
            "topic": topic,
            "key": key,
            "maxNum": str(max_count),
            "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms),
            "indexType": "U" if is_unique else "K",
            "_UNIQUE_KEY_QUERY": "true" if is_unique else "false",
        }
        found: list[ReceivedMessage] = []
        brokers = await self._brokers_of(topic)
        replies = await self._call_each(
            brokers.values(),
            RequestCode.QUERY_MESSAGE,
            ext,
            accept=(ResponseCode.QUERY_NOT_FOUND,),
            what=f"the query for key {key!r} in topic {topic!r}",
        )
        for name, reply in zip(brokers, replies, strict=True):
            if reply.code == ResponseCode.SUCCESS:
                found += _placed(reply.body_bytes, name)
        found = [message for message in found if message.topic == topic]
        return sorted(found, key=lambda message: message.store_timestamp)

    async def view_message(self, offset_message_id: str) -> ReceivedMessage:
        """The message at the place an offset id names; asks the broker whose address is in the id."""
        address, physical_offset = _decode_id(offset_message_id)
        reply = await self._call(
            address,
            RequestCode.VIEW_MESSAGE_BY_ID,
            {"offset": str(physical_offset)},
            accept=(ResponseCode.SYSTEM_ERROR,),
            what=f"message {offset_message_id}",
        )
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            raise NotFoundError(
                f"message {offset_message_id} does not exist on {address}: {reply.remark or 'no record'}"
            )
        return _placed(reply.body_bytes, await self._name_of(address))[0]

    async def get_message(self, topic: str, message_id: str) -> ReceivedMessage:
        """A message by whichever id one has: the unique key or the offset id. They look alike."""
        found = await self.query_by_unique_key(topic, message_id)
        if found:
            return found[0]
        try:
            return await self.view_message(message_id)
        except (InvalidArgumentError, NotFoundError):
            raise NotFoundError(f"topic {topic!r} has no message {message_id!r}") from None

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: Expression = ALL_TAGS,
        hold_ms: int = 0,
    ) -> PullResult:
        """Messages of one queue from an offset on, or those that come within ``hold_ms``; nobody's progress changes."""
        check_whole_number(offset, "an offset")
        await self._keeper_of(queue)
        timeout = self._timeout + hold_ms / 1000
        api = PullApi(self._instance, _TOOLS_GROUP)
        return await api.read(queue, offset, expression, count_max=max_count, hold_ms=hold_ms, timeout=timeout)

    async def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """The message with this offset in a queue."""
        result = await self.pull(queue, offset, max_count=1)
        if not result.messages or result.messages[0].queue_offset != offset:
            raise NotFoundError(
                f"{queue_name(queue)} has no message at offset {offset}; "
                f"it has {result.min_offset} to {result.max_offset - 1}"
            )
        return result.messages[0]

    async def message_track(self, message: ReceivedMessage) -> list[MessageTrack]:
        """How each group of its topic stands with a message."""
        return [await self._track(message, group) for group in await self.topic_groups(message.topic)]

    async def _track(self, message: ReceivedMessage, group: str) -> MessageTrack:
        try:
            connections = await self.group_connections(group)
        except ReplyError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return MessageTrack(group, TrackType.NOT_ONLINE, error.remark)
            return MessageTrack(group, TrackType.UNKNOWN, error.remark)
        except FlareMQError as error:
            return MessageTrack(group, TrackType.UNKNOWN, str(error))
        if connections.consume_type == "CONSUME_ACTIVELY":
            return MessageTrack(group, TrackType.PULL)
        if connections.message_model == "BROADCASTING":
            return MessageTrack(group, TrackType.BROADCASTING)
        stats = await self.group_progress(group, topic=message.topic)
        for queue, entry in stats.offset_table.items():
            same = (queue.topic, queue.queue_id) == (message.topic, message.queue_id)
            if same and queue.broker_name in ("", message.queue.broker_name):
                if entry.consumer_offset <= message.queue_offset:
                    return MessageTrack(group, TrackType.NOT_CONSUMED_YET)
                subscription = connections.subscription_table.get(message.topic)
                tags = subscription.tags_set if subscription is not None else frozenset()
                is_filtered = bool(tags) and message.tags not in tags
                return MessageTrack(group, TrackType.CONSUMED_BUT_FILTERED if is_filtered else TrackType.CONSUMED)
        return MessageTrack(group, TrackType.UNKNOWN)

    async def consume_directly(
        self, group: str, client_id: str, offset_message_id: str, *, topic: str = ""
    ) -> ConsumeMessageDirectlyResult:
        """Let one connected consumer have a message again, now."""
        address, _ = _decode_id(offset_message_id)
        ext = {
            "consumerGroup": group,
            "clientId": client_id,
            "msgId": offset_message_id,
            "brokerName": await self._name_of(address),
            "topic": topic,
        }
        code, what = RequestCode.CONSUME_MESSAGE_DIRECTLY, f"delivery to {client_id!r}"
        return await self._ask(ConsumeMessageDirectlyResult, address, code, ext, timeout=15.0, what=what)

    async def query_consume_queue(
        self, queue: MessageQueue, index: int, *, max_count: int = 10, group: str = ""
    ) -> QueryConsumeQueueResponseBody:
        """Units of a consume queue, as the broker has them."""
        address = await self._keeper_of(queue)
        return await self._consume_queue_at(address, queue.topic, queue.queue_id, index, max_count, group)

    async def _consume_queue_at(
        self, address: str, topic: str, queue_id: int, index: int, max_count: int, group: str
    ) -> QueryConsumeQueueResponseBody:
        ext = {"topic": topic, "queueId": str(queue_id), "index": str(index), "count": str(max_count)}
        code, what = RequestCode.QUERY_CONSUME_QUEUE, f"the queue of {topic!r}"
        return await self._ask(QueryConsumeQueueResponseBody, address, code, ext | {"consumerGroup": group}, what=what)

    async def resume_half_message(self, offset_message_id: str) -> None:
        """Let the broker check a transaction again that it had given up."""
        address, _ = _decode_id(offset_message_id)
        await self._call(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": offset_message_id})

    async def _name_of(self, address: str) -> str:
        """The broker's name for an address; empty if no name server knows it."""
        table = (await self.cluster_info()).broker_addr_table
        return next((name for name, data in table.items() if address in data.broker_addrs.values()), "")


def _placed(records: bytes, broker_name: str) -> list[ReceivedMessage]:
    """Messages of a reply that is about no queue in particular."""
    messages = read_messages(records, MessageQueue(topic="", broker_name=broker_name, queue_id=0))
    for message in messages:
        message.queue = MessageQueue(topic=message.topic, broker_name=broker_name, queue_id=message.queue_id)
    return messages


def _decode_id(message_id: str) -> tuple[str, int]:
    check_text(message_id, "a message id")
    return decode_message_id(message_id)
