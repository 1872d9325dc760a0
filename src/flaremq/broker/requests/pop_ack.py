"""POP requests that settle messages: acknowledge, acknowledge many, put off."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from flaremq.broker.catalog.groups import BROKER_GROUPS, check_not_broker_group
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.pop.check_point import MESSAGES_MAX, QueueKey
from flaremq.broker.pop.receipts import Receipt, real_topic
from flaremq.broker.pop.service import PopService
from flaremq.errors import RemoteProtocolError
from flaremq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
)
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, Outcome

INVISIBLE_MAX_MS: Final = 366 * 24 * 3600 * 1000
_ACKS_MAX: Final = 4096


class PopAckHandler:
    """Takes back what POP handed out."""

    def __init__(self, topics: TopicTable, service: PopService) -> None:
        self._topics = topics
        self._service = service

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.ACK_MESSAGE, self.ack, "ack")
        table.register(RequestCode.BATCH_ACK_MESSAGE, self.batch_ack, "ack")
        table.register(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, self.change_invisible_time, "ack")
        table.settle = self.settle

    def ack(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """ACK_MESSAGE. A receipt that is no longer good is answered like any other: there is nothing to do.

        One of a message that was never handed out is refused."""
        header = AckMessageRequestHeader.decode(request.ext)
        group = check_not_broker_group(header.consumer_group)
        receipt = Receipt.parse(header.extra_info)
        self._check_queue(connection, header.topic, header.queue_id)
        low, high = self._service.taking.range_of(header.topic, header.queue_id)
        if not low <= header.offset <= high:
            raise RequestError(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, store:{low}~{high}",
            )
        key = (header.topic, group, header.queue_id)
        if receipt.is_order:
            if not self._service.settling.ack_in_order(key, receipt, header.offset):
                raise _not_in_batch(header.offset)
            return RemotingCommand.response()
        if not self._service.settling.was_given(key, receipt, header.offset):
            raise _not_given(header.offset)
        pending = self._service.settling.ack(key, receipt, [header.offset])
        return RemotingCommand.response() if pending is None else _when_settled([pending])

    def settle(self, topic: str, group: str, queue_id: int, offset: int, start_offset: int, pop_time: int) -> bool:
        """As ``ack`` does for a receipt that is good; see ``HandlerTable.settle``."""
        config = self._topics.find(topic)
        if config is None or not 0 <= queue_id < config.read_queue_nums or group in BROKER_GROUPS:
            return False
        if offset < self._service.taking.first_offset(topic, queue_id):
            return False  # it was deleted; what is not even written was not handed out
        return self._service.settling.ack_now((topic, group, queue_id, start_offset, pop_time), offset)

    def batch_ack(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """BATCH_ACK_MESSAGE."""
        try:
            body = BatchAckMessageRequestBody.from_json(request.body_bytes)
        except RemoteProtocolError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if not body.acks or len(body.acks) > _ACKS_MAX:
            raise RequestError(
                ResponseCode.NO_MESSAGE, f"{len(body.acks)} acknowledgements, 1 to {_ACKS_MAX} are taken"
            )
        for entry in body.acks:
            check_not_broker_group(entry.consumer_group)
        pending = []
        is_any_given = False
        settling = self._service.settling
        for entry in body.acks:
            topic = real_topic(entry.topic, entry.consumer_group, entry.retry)
            key = (topic, entry.consumer_group, entry.queue_id)
            receipt = _receipt_of(entry, body.broker_name)
            if receipt.is_order:
                for offset in self._service.order_info.given_offsets(key):
                    if _has_bit(entry, offset):
                        is_any_given |= settling.ack_in_order(key, receipt, offset)
            else:
                offsets = [
                    offset for offset in self._offsets_of(entry, key) if settling.was_given(key, receipt, offset)
                ]
                if offsets:
                    is_any_given = True
                    pending.append(settling.ack(key, receipt, offsets))
        if not is_any_given:
            raise RequestError(ResponseCode.NO_MESSAGE, "none of these messages was handed out")
        return _when_settled([work for work in pending if work is not None])

    def _offsets_of(self, entry: BatchAck, key: QueueKey) -> list[int]:
        point = self._service.table.find((*key, entry.start_offset, entry.pop_time))
        if point is not None:
            return [offset for offset in point.offsets if _has_bit(entry, offset)]
        positions = entry.positions()
        return [entry.start_offset + position for _, position in zip(range(MESSAGES_MAX), positions, strict=False)]

    def change_invisible_time(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """CHANGE_MESSAGE_INVISIBLETIME."""
        header = ChangeInvisibleTimeRequestHeader.decode(request.ext)
        group = check_not_broker_group(header.consumer_group)
        receipt = Receipt.parse(header.extra_info)
        invisible_time = check_invisible_time(header.invisible_time)
        self._check_queue(connection, header.topic, header.queue_id)
        low, high = self._service.taking.range_of(header.topic, header.queue_id)
        if not low <= header.offset < high:
            raise RequestError(ResponseCode.NO_MESSAGE, f"offset {header.offset} is not in {low}~{high}")
        key = (header.topic, group, header.queue_id)
        if receipt.is_order:
            changed = self._service.settling.change_invisible_in_order(key, receipt, header.offset, invisible_time)
            return _changed(changed or receipt._replace(pop_time=0, invisible_time=0))
        return self._change(key, receipt, header.offset, invisible_time, suspend=bool(header.suspend))

    async def _change(
        self, key: QueueKey, receipt: Receipt, offset: int, invisible_time: int, *, suspend: bool
    ) -> RemotingCommand:
        changed = await self._service.settling.change_invisible(key, receipt, offset, invisible_time, suspend=suspend)
        if changed is None:
            raise RequestError(ResponseCode.NO_MESSAGE, f"the receipt {receipt.text!r} is no longer good")
        return _changed(changed)

    def _check_queue(self, connection: Connection, topic: str, queue_id: int) -> None:
        config = self._topics.find(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic[:256]}] not exist, apply first please!")
        if not 0 <= queue_id < config.read_queue_nums:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{config.read_queue_nums}] "
                f"consumer:[{connection.peer}]",
            )


async def _when_settled(pending: list[Coroutine[Any, Any, None]]) -> RemotingCommand:
    """The reply, once the log says what the client was told to rely on."""
    await asyncio.gather(*pending)
    return RemotingCommand.response()


def _receipt_of(entry: BatchAck, broker_name: str) -> Receipt:
    return Receipt(
        entry.start_offset,
        entry.pop_time,
        entry.invisible_time,
        entry.revive_queue_id,
        entry.retry,
        broker_name,
        entry.queue_id,
        -1,
    )


def _has_bit(entry: BatchAck, offset: int) -> bool:
    return offset >= entry.start_offset and bool(entry.bits >> offset - entry.start_offset & 1)


def _changed(receipt: Receipt) -> RemotingCommand:
    header = ChangeInvisibleTimeResponseHeader(
        pop_time=receipt.pop_time, invisible_time=receipt.invisible_time, revive_qid=receipt.revive_queue_id
    )
    return RemotingCommand.response(ext=header.encode())


def _not_given(offset: int) -> RequestError:
    return RequestError(ResponseCode.NO_MESSAGE, f"offset {offset} is illegal: it was never handed out")


def _not_in_batch(offset: int) -> RequestError:
    return RequestError(ResponseCode.MESSAGE_ILLEGAL, f"offset {offset} is illegal: it was not handed out in this pop")


def check_invisible_time(milliseconds: int) -> int:
    """The invisible time a client asks for, if it makes sense."""
    if not 0 <= milliseconds <= INVISIBLE_MAX_MS:
        remark = f"an invisible time of {milliseconds} ms, 0 to {INVISIBLE_MAX_MS} are allowed"
        raise RequestError(ResponseCode.INVALID_PARAMETER, remark)
    return milliseconds
