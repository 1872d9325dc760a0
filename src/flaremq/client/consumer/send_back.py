"""Failed messages: back to the broker, which delivers them again later or puts them among the dead letters."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.instance import ClientInstance
from flaremq.errors import FlareMQError
from flaremq.message.properties import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, TRANSACTION_PREPARED, encode_properties
from flaremq.message.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK
from flaremq.message.topics import AUTO_CREATE_TOPIC, retry_topic
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.headers.send import SendMessageRequestHeader

_log = logging.getLogger(__name__)

RETRIES_MAX: Final = 16  # of a group that says nothing else
_FIRST_LEVEL: Final = 3  # 10 s, the delay of a first retry


def header_of_copy(
    group: str, topic: str, queue: MessageQueue, message: ReceivedMessage, properties: Mapping[str, str]
) -> SendMessageRequestHeader:
    """For a send of a received message to another topic, its body as it is stored."""
    return SendMessageRequestHeader(
        producer_group=group,
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=1,
        queue_id=queue.queue_id,
        sys_flag=message.sys_flag & (COMPRESSED | COMPRESSION_TYPE_MASK),
        born_timestamp=message.born_timestamp,
        flag=message.flag,
        properties=encode_properties(properties).decode(),
        broker_name=queue.broker_name,
    )


class SendBack:
    """Sends failed messages of one group back. Event loop thread only."""

    def __init__(self, instance: ClientInstance, group: str, retries_max: int) -> None:
        self._instance = instance
        self._group = group
        self._retries_max = retries_max if retries_max >= 0 else RETRIES_MAX

    async def send(self, message: ReceivedMessage, delay_level: int) -> None:
        """Give a message back; raises if no way worked.

        The broker that has the message makes the retry of it. If it refuses, or is away, the message is sent as a new
        one to the group's retry topic, on any broker.
        """
        try:
            await self._ask_broker(message, delay_level)
        except FlareMQError as error:
            _log.info("message %s could not be sent back: %s", message.message_id, error)
            await self._send_as_new(message, delay_level)

    async def _ask_broker(self, message: ReceivedMessage, delay_level: int) -> None:
        queue = message.queue
        ext = {
            "offset": str(message.physical_offset),
            "group": self._group,
            "delayLevel": str(delay_level),
            "originMsgId": message.message_id,
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(self._retries_max),
            "bname": queue.broker_name,
        }
        await self._instance.transport.call(
            self._instance.routes.master(queue.broker_name),
            RequestCode.CONSUMER_SEND_MSG_BACK,
            ext,
            what=f"sending a message of {message.topic!r} back",
        )

    async def _send_as_new(self, message: ReceivedMessage, delay_level: int) -> None:
        topic = retry_topic(self._group)
        route = await self._instance.routes.find(topic)
        properties = dict(message.properties)
        properties.pop(TRANSACTION_PREPARED, None)
        properties.setdefault(RETRY_TOPIC, message.topic)
        properties.setdefault(ORIGIN_MESSAGE_ID, message.message_id)
        properties[DELAY] = str(delay_level or _FIRST_LEVEL + message.reconsume_times)
        reconsume_times = message.reconsume_times + 1
        if delay_level < 0:
            del properties[DELAY]
            reconsume_times = self._retries_max + 1
        failure: FlareMQError | None = None
        for queue in route.write_queues:
            header = header_of_copy(self._group, topic, queue, message, properties)
            header = replace(header, reconsume_times=reconsume_times, max_reconsume_times=self._retries_max)
            try:
                await self._instance.transport.call(
                    self._instance.routes.master(queue.broker_name),
                    RequestCode.SEND_MESSAGE_V2,
                    header.encode_letters(),
                    bytes(message.stored_body),
                    what=f"sending a message to {topic!r}",
                )
            except FlareMQError as error:
                failure = error
                continue
            return
        if failure is not None:
            raise failure
