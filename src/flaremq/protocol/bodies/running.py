"""What a consumer tells about itself when asked; brokers pass it on unread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flaremq.protocol.bodies.bean import Bean
from flaremq.protocol.bodies.bean_rows import (
    anything,
    bean_table,
    beans,
    double,
    flag,
    integer,
    long,
    maybe_text,
    text,
    text_table,
)
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue, queue_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessQueueInfo(Bean):
    """One queue as the consumer sees it. ``droped`` is Java's spelling."""

    commit_offset: int = long()
    cached_msg_min_offset: int = long()
    cached_msg_max_offset: int = long()
    cached_msg_count: int = integer()
    cached_msg_size_in_mib: int = integer("cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = long()
    transaction_msg_max_offset: int = long()
    transaction_msg_count: int = integer()
    locked: bool = flag()
    try_unlock_times: int = long()
    last_lock_timestamp: int = long()
    dropped: bool = flag("droped")
    last_pull_timestamp: int = long()
    last_consume_timestamp: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatus(Bean):
    """Rates of one topic over the last minute; the failed count over the last hour."""

    pull_rt: float = double("pullRT")
    pull_tps: float = double("pullTPS")
    consume_rt: float = double("consumeRT")
    consume_ok_tps: float = double("consumeOKTPS")
    consume_failed_tps: float = double("consumeFailedTPS")
    consume_failed_msgs: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfo(Bean):
    """A client's answer to GET_CONSUMER_RUNNING_INFO."""

    properties: dict[str, str] = text_table()
    subscription_set: tuple[SubscriptionData, ...] = beans(SubscriptionData)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = queue_table(ProcessQueueInfo)
    mq_pop_table: dict[str, Any] | None = anything()
    status_table: dict[str, ConsumeStatus] = bean_table(ConsumeStatus)
    user_consumer_info: dict[str, Any] | None = anything()
    jstack: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectlyResult(Bean):
    """A client's answer to CONSUME_MESSAGE_DIRECTLY.

    Results: CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION, CR_RETURN_NULL.
    """

    order: bool = flag()
    auto_commit: bool = flag(default=True)
    consume_result: str = text(default="CR_SUCCESS")
    remark: str | None = maybe_text()
    spent_time_mills: int = long()
