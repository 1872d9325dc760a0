"""What became of a send."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import Enum

from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import ResponseCode


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


@dataclass(slots=True, eq=False)
class SendResult:
    """One stored message. ``message_id`` is the id consumers see, ``offset_message_id`` names the place of the record.

    Of a delayed or transactional message the place is that of the waiting record, not of the one delivered later.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    _: KW_ONLY
    transaction_id: str | None = None
    recall_handle: str | None = None

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
