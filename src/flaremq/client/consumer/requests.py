"""What brokers ask of a consumer: rebalance, move to other offsets, tell about yourself, consume this one message."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from flaremq.client.consumer.consumption import Consumption
from flaremq.client.consumer.offset_store import OffsetStore
from flaremq.client.consumer.rebalancing import Rebalancer
from flaremq.client.consumer.received import read_messages
from flaremq.client.errors import queue_name
from flaremq.client.instance import ClientInstance
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo, ProcessQueueInfo
from flaremq.protocol.bodies.stats import GetConsumerStatusBody, ResetOffsetBody
from flaremq.protocol.codes import VERSION_TEXT, RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection

_log = logging.getLogger(__name__)
_DIRECT_SECONDS: Final = 8.0  # brokers wait 10 s for the outcome of a message that they send directly


class ConsumerRequests:
    """Answers brokers on behalf of one consumer. Event loop thread only."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        consumption: Consumption,
        rebalancer: Rebalancer,
        offsets: OffsetStore,
        subscriptions: dict[str, SubscriptionData],
        describe: Callable[[], dict[str, str]],
    ) -> None:
        self._instance = instance
        self._group = group
        self._consumption = consumption
        self._rebalancer = rebalancer
        self._offsets = offsets
        self._subscriptions = subscriptions
        self._describe = describe
        self._started_ms = instance.clock.now_ms()
        for code, handler in (
            (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._rebalance),
            (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset_offsets),
            (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._tell_offsets),
            (RequestCode.GET_CONSUMER_RUNNING_INFO, self._tell_running_info),
            (RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly),
        ):
            instance.handlers.register(code, handler, "client")

    def _rebalance(self, connection: Connection, request: RemotingCommand) -> None:
        if request.field("consumerGroup") == self._group:
            self._rebalancer.soon()

    def _reset_offsets(self, connection: Connection, request: RemotingCommand) -> None:
        if request.field("group") == self._group:
            table = ResetOffsetBody.from_json(request.body_bytes).offset_table
            self._instance.spawn(self._apply_offsets(table))

    async def _apply_offsets(self, table: dict[MessageQueue, int]) -> None:
        for queue, offset in table.items():
            if queue in self._consumption.queues:
                _log.info("%s is reset to offset %d", queue_name(queue), offset)
                await self._offsets.save_offset(queue, offset)
                self._consumption.move(queue, offset)

    def _tell_offsets(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        topic = request.field("topic")
        table = {queue: held.commit_offset for queue, held in self._consumption.queues.items() if queue.topic == topic}
        return RemotingCommand.response(body=GetConsumerStatusBody(message_queue_table=table).to_json())

    def _tell_running_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        properties = {
            "PROP_CLIENT_VERSION": VERSION_TEXT,
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "PROP_NAMESERVER_ADDR": ";".join(self._instance.transport.name_servers),
            **self._describe(),
        }
        now_ms, now = self._instance.clock.now_ms(), self._instance.clock.monotonic()
        table = {
            queue: ProcessQueueInfo(
                commit_offset=held.commit_offset,
                cached_msg_min_offset=held.commit_offset if held.count else 0,
                cached_msg_max_offset=held.next_offset - 1 if held.count else 0,
                cached_msg_count=held.count,
                cached_msg_size_in_mib=held.size_bytes >> 20,
                locked=held.locked_until > now,
                dropped=held.is_dropped,
                last_pull_timestamp=now_ms - int((now - held.last_pull) * 1000),
                last_consume_timestamp=now_ms,
            )
            for queue, held in self._consumption.queues.items()
        }
        info = ConsumerRunningInfo(
            properties=properties, subscription_set=tuple(self._subscriptions.values()), mq_table=table
        )
        return RemotingCommand.response(body=info.to_json())

    async def _consume_directly(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        ext = request.ext or {}
        name = str(ext.get("brokerName", ""))
        messages = read_messages(request.body_bytes, MessageQueue(topic="", broker_name=name, queue_id=0))
        if not messages:
            return RemotingCommand.response(ResponseCode.SYSTEM_ERROR, "the request holds no message")
        message = messages[0]
        message.queue = MessageQueue(topic=message.topic, broker_name=name, queue_id=message.queue_id)
        started = time.monotonic()
        delivery, remark = self._consumption.delivery, ""
        outcome = delivery.hand_over(message)
        try:
            is_done = await asyncio.wait_for(asyncio.shield(outcome), _DIRECT_SECONDS)
        except TimeoutError:
            is_done = False
            taken = not delivery.withdraw(message)
            remark = "it is still being worked on" if taken else "nobody takes messages from this consumer at present"
        result = ConsumeMessageDirectlyResult(
            consume_result="CR_SUCCESS" if is_done else "CR_LATER",
            remark=remark,
            spent_time_mills=int((time.monotonic() - started) * 1000),
        )
        return RemotingCommand.response(body=result.to_json())
