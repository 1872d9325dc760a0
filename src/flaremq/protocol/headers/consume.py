"""Headers of consuming: pulls, offsets, queries, membership, transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flaremq.protocol.headers.custom_header import (
    CustomHeader,
    flag_or,
    integer,
    long,
    maybe_flag,
    maybe_integer,
    maybe_text,
    text,
)

_new: Final = object.__new__


@dataclass(slots=True, kw_only=True)  # not frozen: one is made per pull, and filling slots is four times as fast
class PullMessageRequestHeader(CustomHeader):
    """PULL_MESSAGE and LITE_PULL_MESSAGE. The misspelt name is Java's."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    queue_offset: int = long()
    max_msg_nums: int = integer()
    sys_flag: int = integer()
    commit_offset: int = long()
    suspend_timeout_millis: int = long()
    sub_version: int = long()
    subscription: str | None = maybe_text()
    expression_type: str | None = maybe_text()
    max_msg_bytes: int | None = maybe_integer()
    request_source: int | None = maybe_integer()
    proxy_forward_client_id: str | None = maybe_text("proxyFrowardClientId")
    broker_name: str | None = maybe_text("bname")


def decode_pull_header(ext: Mapping[str, Any] | None) -> PullMessageRequestHeader:
    """The header of a pull."""
    return (_decode_common_pull(ext) if ext else None) or PullMessageRequestHeader.decode(ext)


def _decode_common_pull(ext: Mapping[str, Any]) -> PullMessageRequestHeader | None:
    """What well-meaning clients send, in a quarter of the time; None leaves it to the plain way."""
    get = ext.get
    header = _new(PullMessageRequestHeader)
    try:
        header.consumer_group = ext["consumerGroup"]
        header.topic = ext["topic"]
        header.queue_id = queue_id = int(ext["queueId"])
        header.queue_offset = queue_offset = int(ext["queueOffset"])
        header.max_msg_nums = max_msg_nums = int(ext["maxMsgNums"])
        header.sys_flag = sys_flag = int(ext["sysFlag"])
        header.commit_offset = commit_offset = int(ext["commitOffset"])
        header.suspend_timeout_millis = suspend_timeout_millis = int(ext["suspendTimeoutMillis"])
        header.sub_version = sub_version = int(ext["subVersion"])
        max_msg_bytes = get("maxMsgBytes")
        header.max_msg_bytes = None if max_msg_bytes is None else int(max_msg_bytes)
    except (KeyError, ValueError):
        return None
    digits = (
        f"{ext['queueId']}{ext['queueOffset']}{ext['maxMsgNums']}{ext['sysFlag']}{ext['commitOffset']}"
        f"{ext['suspendTimeoutMillis']}{ext['subVersion']}{max_msg_bytes or ''}"
    )
    if not digits.isdecimal():
        return None  # blanks and underscores, which are no digits but to Python
    if (queue_id | max_msg_nums | sys_flag | (header.max_msg_bytes or 0)) >> 31 or "requestSource" in ext:
        return None  # negative, too large or rare
    if (queue_offset | commit_offset | suspend_timeout_millis | sub_version) >> 63:
        return None
    header.subscription = get("subscription")
    header.expression_type = get("expressionType")
    header.request_source = None
    header.proxy_forward_client_id = get("proxyFrowardClientId")
    header.broker_name = get("bname")
    return header


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClientRequestHeader(CustomHeader):
    """UNREGISTER_CLIENT."""

    client_id: str = text("clientID")
    producer_group: str | None = maybe_text()
    consumer_group: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponseHeader(CustomHeader):
    """What 5.x tells about fingerprints."""

    is_support_heart_beat_v2: bool | None = maybe_flag("IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool | None = maybe_flag("IS_SUB_CHANGE")


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerListByGroupRequestHeader(CustomHeader):
    """GET_CONSUMER_LIST_BY_GROUP."""

    consumer_group: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffsetRequestHeader(CustomHeader):
    """QUERY_CONSUMER_OFFSET."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    set_zero_if_not_found: bool | None = maybe_flag()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffsetRequestHeader(CustomHeader):
    """UPDATE_CONSUMER_OFFSET. ali-ons sends -1 for "nothing to commit"."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = integer()
    commit_offset: int = long()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetResponseHeader(CustomHeader):
    """The reply to every question for an offset."""

    offset: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffsetRequestHeader(CustomHeader):
    """SEARCH_OFFSET_BY_TIMESTAMP."""

    topic: str = text()
    queue_id: int = integer()
    timestamp: int = long()
    boundary_type: str | None = maybe_text()
    broker_name: str | None = maybe_text("bname")

    @property
    def is_upper(self) -> bool:
        """The last message of that time rather than the first; Java writes the word in either case."""
        return (self.boundary_type or "").lower() == "upper"


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffsetRequestHeader(CustomHeader):
    """GET_MAX_OFFSET."""

    topic: str = text()
    queue_id: int = integer()
    committed: bool | None = maybe_flag()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMinOffsetRequestHeader(CustomHeader):
    """GET_MIN_OFFSET."""

    topic: str = text()
    queue_id: int = integer()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEarliestMsgStoretimeRequestHeader(CustomHeader):
    """GET_EARLIEST_MSG_STORETIME."""

    topic: str = text()
    queue_id: int = integer()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEarliestMsgStoretimeResponseHeader(CustomHeader):
    """-1 when there is no message."""

    timestamp: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageRequestHeader(CustomHeader):
    """QUERY_MESSAGE by key or unique key."""

    topic: str = text()
    key: str = text()
    max_num: int = integer()
    begin_timestamp: int = long()
    end_timestamp: int = long()
    unique_key_query: bool | None = maybe_flag("_UNIQUE_KEY_QUERY")
    index_type: str | None = maybe_text()

    @property
    def is_unique_key(self) -> bool:
        return bool(self.unique_key_query) or self.index_type == "U"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageResponseHeader(CustomHeader):
    """How far the index reaches."""

    index_last_update_timestamp: int = long()
    index_last_update_phyoffset: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageRequestHeader(CustomHeader):
    """VIEW_MESSAGE_BY_ID; ``offset`` is physical."""

    offset: int = long()
    topic: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRequestHeader(CustomHeader):
    """END_TRANSACTION: commit 8, rollback 12, unknown 0."""

    producer_group: str = text()
    tran_state_table_offset: int = long()
    commit_log_offset: int = long()
    commit_or_rollback: int = integer()
    from_transaction_check: bool = flag_or(False)
    msg_id: str = text()
    transaction_id: str | None = maybe_text()
    topic: str | None = maybe_text()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTransactionStateRequestHeader(CustomHeader):
    """CHECK_TRANSACTION_STATE: the broker asks a producer how its transaction ended."""

    tran_state_table_offset: int = long()
    commit_log_offset: int = long()
    msg_id: str | None = maybe_text()
    transaction_id: str | None = maybe_text()
    offset_msg_id: str | None = maybe_text()
    topic: str | None = maybe_text()
    broker_name: str | None = maybe_text("bname")
