"""Counters of a store: puts by latency bucket, gets, refusals. Approximate under threads, never wrong by much."""

from __future__ import annotations

import bisect
from typing import Any

# Upper bounds in milliseconds; RocketMQ's buckets.
_BUCKETS_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
_NAMES = (
    "<=0ms",
    "0~10ms",
    "10~50ms",
    "50~100ms",
    "100~200ms",
    "200~500ms",
    "500ms~1s",
    "1~2s",
    "2~3s",
    "3~4s",
    "4~5s",
    "5~10s",
    "10s~",
)


class StoreStatistics:
    """Plain integers, added to without a lock."""

    __slots__ = (
        "get_found_count",
        "get_miss_count",
        "get_transferred_count",
        "put_count",
        "put_failed_count",
        "put_latency_max_ms",
        "slow_puts",
    )

    def __init__(self) -> None:
        self.put_count = 0
        self.put_failed_count = 0
        self.put_latency_max_ms = 0
        self.slow_puts = [0] * len(_NAMES)  # bucket 0 is not counted but derived: it holds nearly all
        self.get_found_count = 0
        self.get_miss_count = 0
        self.get_transferred_count = 0

    def note_put(self, elapsed_ms: int, weight: int = 1) -> None:
        """How long a put took; only a millisecond or more is worth a note."""
        if elapsed_ms < 1:
            return
        self.slow_puts[bisect.bisect_right(_BUCKETS_MS, elapsed_ms)] += weight
        if elapsed_ms > self.put_latency_max_ms:
            self.put_latency_max_ms = elapsed_ms

    def to_dict(self) -> dict[str, Any]:
        buckets = dict(zip(_NAMES, self.slow_puts, strict=True))
        buckets["<=0ms"] = max(0, self.put_count - sum(self.slow_puts))
        return {
            "putMessageTimesTotal": self.put_count,
            "putMessageFailedTimes": self.put_failed_count,
            "putMessageEntireTimeMax": self.put_latency_max_ms,
            "putMessageDistributeTime": buckets,
            "getMessageTimesTotalFound": self.get_found_count,
            "getMessageTimesTotalMiss": self.get_miss_count,
            "getMessageTransferedMsgCount": self.get_transferred_count,
        }
