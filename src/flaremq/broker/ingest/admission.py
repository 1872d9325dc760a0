"""SendAdmission: whether a message may be sent, and the record it becomes. RocketMQ's checks in RocketMQ's order."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable
from dataclasses import replace

from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.names import check_sendable, check_topic
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.delay.message_rules import MessageKind, TimerRules, prepare
from flaremq.broker.ingest.replies import SendReplies
from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.clock import Clock
from flaremq.message import properties as names
from flaremq.message.message_id import UniqueKeyFactory
from flaremq.message.properties import edit_properties, find_property, parse_properties
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import DLQ_PREFIX, RETRY_PREFIX, dlq_topic
from flaremq.protocol.bodies.topic import PERM_WRITE, TopicConfig
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.send import SendMessageRequestHeader
from flaremq.remoting.connection import Connection

RECONSUME_LIMIT_VERSION = 121  # clients from this release on say how often a message may be tried


class SendAdmission:
    """Checks sends against topics, groups and options. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        topics: TopicTable,
        groups: GroupTable,
        statistics: BrokerStatistics,
        replies: SendReplies,
        is_ordered: Callable[[str], bool] = lambda group: False,
    ) -> None:
        self._options = options
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._statistics = statistics
        self._replies = replies
        self._is_ordered = is_ordered  # whether a group has an orderly consumer
        self._unique_keys = UniqueKeyFactory(
            address=replies.store_host[:-4], process_id=os.getpid(), instance_hash=secrets.randbits(32)
        )
        # Topics whose sends passed ``check`` and would again, with the number of legal queue ids: the short ways of
        # sends ask nothing else. Forgotten whenever anything that ``check`` looks at changes.
        self.plain_queues: dict[str, int] = {}
        topics.on_change.append(lambda _: self.plain_queues.clear())
        topics.on_delete.append(lambda _: self.plain_queues.clear())

    async def check(self, header: SendMessageRequestHeader) -> TopicConfig:
        """The topic to send to, created if it may be; RequestError if the message may not be sent."""
        options = self._options
        start = options.start_accept_send_request_time_stamp
        if self._clock.now_ms() < start:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {start}")
        topic = header.topic
        config = self._topics.find(topic)
        if not options.broker_permission & PERM_WRITE and config is not None and config.order:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the broker[{options.address}] sending message is forbidden"
            )
        check_topic(topic)
        check_sendable(topic)
        if config is None:
            config = await self._create(header)
        queues = max(config.write_queue_nums, config.read_queue_nums)
        if header.queue_id >= queues:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"request queueId[{header.queue_id}] is illegal, {config} "
            )
        plain = not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and options.broker_permission & PERM_WRITE
        if plain and not start:
            self.plain_queues[topic] = queues
        return config

    async def _create(self, header: SendMessageRequestHeader) -> TopicConfig:
        topic = header.topic
        config = self._topics.create_on_send(topic, header.default_topic, header.default_topic_queue_nums)
        if config is None and topic.startswith(RETRY_PREFIX):
            config = self._topics.create_on_send_back(topic, 1)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        await self._topics.save_changes()
        return config

    def form(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
    ) -> StoredForm:
        """The message as sent, with what the broker adds to its properties."""
        raw = (header.properties or "").encode("utf-8", "replace")
        changes: dict[str, str | None] = {
            names.REGION: self._options.region_id,
            names.CLUSTER: self._options.broker_cluster_name,
            names.TRACE_SWITCH: self._replies.traits["TRACE_ON"],
            "POP_CK": None,
        }
        if not find_property(raw, b"UNIQ_KEY"):
            changes[names.UNIQUE_KEY] = self._unique_keys.make(self._clock.now_ms())
        properties = edit_properties(raw, changes)
        if len(properties) > 32767 or find_property(properties, b"INNER_NUM") is not None:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, self._replies.illegal_remark)
        return StoredForm(
            topic=header.topic,
            queue_id=queue_of(header, config),
            body=request.body_bytes,
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=connection.peer_host,
            reconsume_times=header.reconsume_times,
            wait_store_msg_ok=parse_properties(raw).get(names.WAIT, "true") != "false",
        )

    def routed(self, form: StoredForm) -> tuple[MessageKind, StoredForm]:
        """The record of a message that may have to wait in a topic of the broker's own first."""
        return prepare(form, now_ms=self._clock.now_ms(), timer=TimerRules.of(self._options))

    async def redirect(
        self, form: StoredForm, header: SendMessageRequestHeader, request: RemotingCommand
    ) -> StoredForm:
        """A consumer that sends a message back by a plain send: too often tried makes it a dead letter.

        A consumer in order tries by itself and sends back only what it gives up, with as many tries as are allowed
        (4.9) or one more (5.x). A lock of its group tells it from the others, as in RocketMQ 5.
        """
        if not header.topic.startswith(RETRY_PREFIX):
            return form
        group = header.topic[len(RETRY_PREFIX) :]
        group_config = self._groups.find(group)
        if group_config is None:
            remark = f"subscription group not exist, {group}"
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        limit = group_config.retry_max_times
        if request.version >= RECONSUME_LIMIT_VERSION and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        if header.reconsume_times <= limit and not self._is_ordered(group):
            return form
        topic = dlq_topic(group)
        self._topics.create_on_send_back(topic, 1)
        await self._topics.save_changes()
        origin = find_property(form.properties, names.RETRY_TOPIC.encode())
        self._statistics.note_dead_letter(group, header.topic if origin is None else str(origin, "utf-8", "replace"))
        return replace(form.with_properties({names.DELAY: None}), topic=topic, queue_id=0)


def queue_of(header: SendMessageRequestHeader, config: TopicConfig) -> int:
    """The queue a message goes to; a negative one leaves the choice to the broker."""
    return header.queue_id if header.queue_id >= 0 else random.randrange(max(1, config.write_queue_nums))
