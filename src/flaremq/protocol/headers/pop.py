"""Headers of POP consumption. Their codes do not fit the compact header, so they travel as JSON only."""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.protocol.headers.custom_header import (
    CustomHeader,
    flag,
    flag_or,
    integer,
    integer_or,
    long,
    maybe_flag,
    maybe_text,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageRequestHeader(CustomHeader):
    """POP_MESSAGE; queue -1 is any, ``init_mode`` 0 starts a new group at the oldest message, 1 at the end."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    max_msg_nums: int = integer()
    invisible_time: int = long()
    poll_time: int = long()
    born_time: int = long()
    init_mode: int = integer()
    expression_type: str | None = maybe_text("expType")
    expression: str | None = maybe_text("exp")
    order: bool | None = maybe_flag()
    attempt_id: str | None = maybe_text()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageResponseHeader(CustomHeader):
    """What the client needs to build the receipts of the messages."""

    pop_time: int = long()
    invisible_time: int = long()
    revive_qid: int = integer()
    rest_num: int = long()
    start_offset_info: str | None = maybe_text()
    msg_offset_info: str | None = maybe_text()
    order_count_info: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class AckMessageRequestHeader(CustomHeader):
    """ACK_MESSAGE; ``extra_info`` is the receipt."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    extra_info: str = text()
    offset: int = long()
    lite_topic: str | None = maybe_text()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTimeRequestHeader(CustomHeader):
    """CHANGE_MESSAGE_INVISIBLETIME."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    extra_info: str = text()
    offset: int = long()
    invisible_time: int = long()
    suspend: bool | None = maybe_flag()
    lite_topic: str | None = maybe_text()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTimeResponseHeader(CustomHeader):
    """The parts of the new receipt."""

    pop_time: int = long()
    invisible_time: int = long()
    revive_qid: int = integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekMessageRequestHeader(CustomHeader):
    """PEEK_MESSAGE: look without taking."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    max_msg_nums: int = integer()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRequestHeader(CustomHeader):
    """NOTIFICATION: is there something to pop?"""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    poll_time: int = long()
    born_time: int = long()
    order: bool = flag_or(False)
    attempt_id: str | None = maybe_text()
    expression_type: str | None = maybe_text("expType")
    expression: str | None = maybe_text("exp")
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationResponseHeader(CustomHeader):
    """Yes or no."""

    has_msg: bool = flag()
    polling_full: bool | None = maybe_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfoRequestHeader(CustomHeader):
    """POLLING_INFO."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer_or(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfoResponseHeader(CustomHeader):
    """How many requests wait."""

    polling_num: int = integer()
