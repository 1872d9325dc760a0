"""CONSUMER_SEND_MSG_BACK: a consumer could not handle a message and wants it again later."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.groups import GroupTable, check_not_broker_group
from flaremq.broker.catalog.names import check_group, is_revive_topic
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.ingest.admission import RECONSUME_LIMIT_VERSION
from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import RETRY_TOPIC
from flaremq.message.stored_form import sent_back
from flaremq.message.topics import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, dlq_topic, retry_topic
from flaremq.protocol.bodies.topic import PERM_WRITE
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.send import ConsumerSendMsgBackRequestHeader

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_UNIT_SUBSCRIPTION: Final = 0x2
# Nobody consumes these: what waits there would become visible before its time.
_WAITING_TOPICS: Final = frozenset((HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC))


@dataclass(eq=False, repr=False)
class SendBackHandler:
    """Appends the message again: to the group's retry topic after a delay, or to its dead letters."""

    _options: BrokerOptions
    _store_loop: StoreAccess
    _topics: TopicTable
    _groups: GroupTable
    _statistics: BrokerStatistics

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.CONSUMER_SEND_MSG_BACK, self.send_back, "send")

    async def send_back(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = ConsumerSendMsgBackRequestHeader.decode(request.ext)
        group = check_not_broker_group(check_group(header.group))
        config = self._groups.find(group)
        if config is None:
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")
        options = self._options
        if not options.broker_permission & PERM_WRITE:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the broker[{options.address}] sending message is forbidden"
            )
        if config.retry_queue_nums <= 0:
            return RemotingCommand.response()  # the group wants no retries
        record = await self._read(header.offset)
        limit = config.retry_max_times
        if request.version >= RECONSUME_LIMIT_VERSION and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        await self._ensure_topic(retry_topic(group), config.retry_queue_nums, unit_mode=header.unit_mode)
        form = sent_back(
            record,
            group=group,
            delay_level=header.delay_level,
            reconsume_times_max=limit,
            queue_id=random.randrange(config.retry_queue_nums),
        )
        if form.topic == dlq_topic(group):
            await self._ensure_topic(form.topic, 1)
        # The consumer forgets the message when it hears that we have it: so it has to be durable then.
        result = await self._store_loop.put(replace(form, wait_store_msg_ok=True))
        if not result.ok:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{result.status.name}: {result.detail or ''}".rstrip(": "))
        topic = record.properties.get(RETRY_TOPIC, record.topic)
        self._statistics.note_send_back(group, topic)
        if form.topic == dlq_topic(group):
            self._statistics.note_dead_letter(group, topic)
        return RemotingCommand.response()

    async def _read(self, physical_offset: int) -> MessageExt:
        record = (
            await self._store_loop.run_cold(self._store_loop.store.read, physical_offset)
            if physical_offset >= 0
            else None
        )
        if record is None or record.topic in _WAITING_TOPICS or is_revive_topic(record.topic):
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {physical_offset}")
        return record

    async def _ensure_topic(self, topic: str, queue_nums: int, *, unit_mode: bool = False) -> None:
        found = self._topics.create_on_send_back(
            topic, queue_nums, topic_sys_flag=_UNIT_SUBSCRIPTION if unit_mode else 0
        )
        await self._topics.save_changes()
        if not found.perm & PERM_WRITE:
            raise RequestError(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
