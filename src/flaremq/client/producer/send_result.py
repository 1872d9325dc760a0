"""What became of a send."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import cython

from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Sequence

if not cython.compiled:
    from flaremq.client.producer.outgoing import Outgoing


class SendStatus(Enum):
    """Stored in every case; the others say what the broker could not do in time."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


STATUS_BY_CODE: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult:
    """One stored message. ``message_id`` is the id consumers see, ``offset_message_id`` names the place of the record.

    Of a delayed or transactional message the place is that of the waiting record, not of the one delivered later.
    """

    __slots__ = (
        "message_id",
        "offset_message_id",
        "queue",
        "queue_offset",
        "recall_handle",
        "status",
        "transaction_id",
    )

    # Many parameters on purpose: all that a broker answers.
    def __init__(
        self,
        status: SendStatus,
        message_id: str,
        offset_message_id: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        transaction_id: str | None = None,
        recall_handle: str | None = None,
    ) -> None:
        self.status = status
        self.message_id = message_id
        self.offset_message_id = offset_message_id
        self.queue = queue
        self.queue_offset = queue_offset
        self.transaction_id = transaction_id
        self.recall_handle = recall_handle

    @property
    def ok(self) -> bool:
        """Stored as durably as asked."""
        return self.status is SendStatus.SEND_OK

    @property
    def queue_id(self) -> int:
        return self.queue.queue_id

    def __repr__(self) -> str:
        place = f"{self.queue.topic!r}, broker={self.queue.broker_name!r}, queue_id={self.queue.queue_id}"
        return f"SendResult({self.status.name}, {place}, queue_offset={self.queue_offset}, id={self.message_id})"

    def __reduce__(self) -> tuple[object, ...]:
        place = self.status, self.message_id, self.offset_message_id, self.queue, self.queue_offset
        return _restored, (*place, self.transaction_id, self.recall_handle)


def _restored(
    status: SendStatus,
    message_id: str,
    offset_message_id: str,
    queue: MessageQueue,
    queue_offset: int,
    transaction_id: str | None,
    recall_handle: str | None,
) -> SendResult:
    result = SendResult(status, message_id, offset_message_id, queue, queue_offset)
    result.transaction_id = transaction_id
    result.recall_handle = recall_handle
    return result


def results_of_batch(
    status: SendStatus, messages: Sequence[Outgoing], offset_ids: str, queue: MessageQueue, queue_offset: int
) -> list[SendResult]:
    """One result a message of a batch whose first is at ``queue_offset``; the ids come joined by commas."""
    ids = offset_ids.split(",")
    if len(ids) != len(messages):  # a topic that keeps batches whole has one record, so one id, for all of them
        ids = [ids[0]] * len(messages)
    results: list[SendResult] = []
    for number in range(len(messages)):
        message: Outgoing = messages[number]
        result: SendResult = SendResult.__new__(SendResult)
        result.status = status
        result.message_id = message.unique_key
        result.offset_message_id = ids[number]
        result.queue = queue
        result.queue_offset = queue_offset + number
        result.transaction_id = result.recall_handle = None
        results.append(result)
    return results
