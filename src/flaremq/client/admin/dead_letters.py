"""Dead letters: what a group could not handle, and giving it to the group once more.

A dead letter is resent as a client would send a failed message that its broker does not take back: as a new message to
the retry topic of the group, with ``RETRY_TOPIC`` and ``ORIGIN_MESSAGE_ID`` naming what it was. So this group gets it
under its old topic, id, keys and properties, and no other group does; every broker of RocketMQ takes it. Its attempts
count from the beginning. The dead letter stays where it is until it expires.

Consumers by POP have no such topic. For them, or for all groups, it can be sent to the topic it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.client.admin.messages import MessageAdmin
from flaremq.client.arguments import check_group
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.consumer.send_back import header_of_copy
from flaremq.client.producer.send_result import STATUS_BY_CODE, SendStatus
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message import properties as names
from flaremq.message.topics import dlq_topic, retry_topic
from flaremq.protocol.codes import RequestCode

# What brokers wrote down about an earlier life of the message, or would obey in the next one.
_OF_ONE_LIFE: Final = frozenset(
    (
        names.DELAY,
        names.WAIT,
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
        names.TRANSACTION_PREPARED,
        names.TRANSACTION_CHECK_TIMES,
        names.TRANSACTION_PREPARED_QUEUE_OFFSET,
        names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES,
        names.DLQ_ORIGIN_TOPIC,
        names.DLQ_ORIGIN_MESSAGE_ID,
        "MIN_OFFSET",
        "MAX_OFFSET",
        "POP_CK",
        "1ST_POP_TIME",
        "__CRC32#",
    )
)
_TIMER_PREFIX: Final = "TIMER_"


@dataclass(frozen=True, slots=True)
class Resent:
    """Where a dead letter lies as a new message."""

    status: SendStatus  # other than SEND_OK: stored, but not on disk, or not on a slave, in time
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int


def origin_topic(message: ReceivedMessage) -> str | None:
    """The topic a dead letter was first sent to."""
    found = message.properties.get(names.RETRY_TOPIC) or message.properties.get(names.DLQ_ORIGIN_TOPIC)
    return None if found is None else str(found)


def origin_id(message: ReceivedMessage) -> str:
    """The id by which its producer knows it."""
    return message.uniq_key or str(
        message.properties.get(names.ORIGIN_MESSAGE_ID)
        or message.properties.get(names.DLQ_ORIGIN_MESSAGE_ID)
        or message.offset_message_id
    )


class DeadLetterAdmin(MessageAdmin):
    """Orders about dead letters."""

    async def resend_dead_letter(self, group: str, message: ReceivedMessage, *, to_all_groups: bool = False) -> Resent:
        """Send a message of ``%DLQ%group`` once more: to its group alone, or to the topic it came from."""
        check_group(group)
        if message.queue.topic != dlq_topic(group):
            raise InvalidArgumentError(f"{message.message_id} is in {message.queue.topic}, not in {dlq_topic(group)}")
        origin = origin_topic(message)
        if origin is None:
            raise InvalidArgumentError(f"{message.message_id} does not say which topic it came from")
        topic = origin if to_all_groups else retry_topic(group)
        properties = {
            name: value
            for name, value in message.properties.items()
            if name not in _OF_ONE_LIFE and not name.startswith(_TIMER_PREFIX)
        }
        properties[names.ORIGIN_MESSAGE_ID] = properties.get(names.ORIGIN_MESSAGE_ID, origin_id(message))
        if to_all_groups:
            del properties[names.RETRY_TOPIC]
        else:
            properties[names.RETRY_TOPIC] = origin
        return await self._send_copy(group, topic, message, properties)

    async def _send_copy(
        self, group: str, topic: str, message: ReceivedMessage, properties: Mapping[str, str]
    ) -> Resent:
        route = await self._instance.routes.find(topic)
        queues = sorted(route.write_queues)
        if not queues:
            raise UnavailableError(f"no broker takes messages of {topic}")
        near = [queue for queue in queues if queue.broker_name == message.queue.broker_name] or queues
        queue = near[message.queue_offset % len(near)]
        address = self._instance.routes.master(queue.broker_name)
        reply = await self._call(
            address,
            RequestCode.SEND_MESSAGE_V2,
            header_of_copy(group, topic, queue, message, properties).encode_letters(),
            bytes(message.stored_body),
            accept=STATUS_BY_CODE.keys(),
            what=f"sending {message.message_id} to {topic!r}",
        )
        place = reply.int_field("queueId"), reply.int_field("queueOffset")
        return Resent(STATUS_BY_CODE[reply.code], topic, queue.broker_name, *place)
