"""RuntimeInfo: the table behind GET_BROKER_RUNTIME_INFO, every key that mqadmin reads and brokerStatus prints.

All values are texts. Both spellings of the transfer rate are there, for RocketMQ 4.9 and 5 read different ones.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.put_times import PutTimes
from flaremq.broker.statistics.store_rates import Counters, StoreRates
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.clock import Clock
from flaremq.metrics.histogram import Histogram
from flaremq.protocol.codes import VERSION, VERSION_TEXT
from flaremq.remoting.handlers import HandlerTable

# Lane of requests -> how RocketMQ's keys for its queue begin.
_QUEUES: Final = {
    "send": "sendThreadPoolQueue",
    "pull": "pullThreadPoolQueue",
    "lite_pull": "litePullThreadPoolQueue",
    "query": "queryThreadPoolQueue",
    "ack": "ackThreadPoolQueue",
}
_NO_TIMER: Final = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}
_UNLIMITED: Final = 2**31 - 1  # transient buffers left, where there is no pool of them


class RuntimeInfo:
    """Collects the state of a running broker. Event loop thread only."""

    def __init__(
        self,
        options: BrokerOptions,
        store_loop: StoreAccess,
        statistics: BrokerStatistics,
        table: HandlerTable,
        clock: Clock,
        *,
        more: Callable[[], Mapping[str, str]] = dict,
        waits: Histogram | None = None,
    ) -> None:
        self._options = options
        self._store_loop = store_loop
        self._statistics = statistics
        self._table = table
        self._clock = clock
        self._more = more  # what delay levels and timers have to say
        self._put_times = None if waits is None else PutTimes(waits)  # of who waits for disk or slaves
        self._booted_ms = clock.now_ms()
        self._booted_offset = store_loop.store.max_physical_offset
        store = store_loop.store.statistics()
        self._rates = StoreRates(self._booted_ms, self._counters(store), store["putMessageDistributeTime"])

    def tick(self, now_ms: int) -> None:
        """Sample the rates; call it once a second."""
        store = self._store_loop.store.statistics()
        self._rates.tick(now_ms, self._counters(store), store["putMessageDistributeTime"])
        if self._put_times is not None:
            self._put_times.tick()

    def _counters(self, store: Mapping[str, Any]) -> Counters:
        statistics = self._statistics
        return Counters(
            store["putMessageTimesTotal"],
            statistics.get_found_count,
            statistics.get_miss_count,
            statistics.get_transferred_count,
        )

    async def collect(self) -> dict[str, str]:
        """The whole table."""
        result = self._of_store()
        result |= self._of_recovery()
        result |= await self._store_loop.run(self._of_disk)
        result |= self._of_requests()
        result |= self._of_totals()
        result |= _NO_TIMER
        result |= self._more()
        return result

    def _of_store(self) -> dict[str, str]:
        store = self._store_loop.store
        statistics = store.statistics()
        rates = self._rates
        latencies = statistics["putMessageDistributeTime"]
        put_count = statistics["putMessageTimesTotal"]
        put_size = store.max_physical_offset - self._booted_offset
        transferred = rates.tps("get_transferred")
        uptime_ms = self._clock.now_ms() - self._booted_ms
        return {
            "bootTimestamp": str(self._booted_ms),
            "runtime": format_runtime(uptime_ms),
            "putMessageTimesTotal": str(put_count),
            "putMessageFailedTimes": str(statistics["putMessageFailedTimes"]),
            "putMessageSizeTotal": str(put_size),
            "putMessageAverageSize": str(put_size / max(1, put_count)),
            "putMessageEntireTimeMax": str(statistics["putMessageEntireTimeMax"]),
            "putMessageDistributeTime": "".join(
                f"[{bucket}]:{count} " for bucket, count in rates.latencies(latencies).items()
            ),
            "putLatency99": f"{self._put_latency_ms(0.99, latencies):.2f}",
            "putLatency999": f"{self._put_latency_ms(0.999, latencies):.2f}",
            "getMessageEntireTimeMax": str(self._statistics.get_latency_max_ms),
            "putTps": rates.tps("put"),
            "getFoundTps": rates.tps("get_found"),
            "getMissTps": rates.tps("get_miss"),
            "getTotalTps": rates.total_get_tps(),
            "getTransferedTps": transferred,
            "getTransferredTps": transferred,
            "dispatchMaxBuffer": "0",
            "dispatchBehindBytes": str(store.dispatch_lag_bytes),
            "damagedLogRanges": str(statistics["damagedLogRanges"]),
            "damagedLogBytes": str(statistics["damagedLogBytes"]),
            "damagedReads": str(statistics["damagedReads"]),
            "repairedUnits": str(statistics["repairedUnits"]),
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(store.max_physical_offset),
            "remainHowManyDataToFlush": format_bytes(max(0, store.max_physical_offset - store.flushed_offset)),
            "remainTransientStoreBufferNumbs": str(_UNLIMITED),
            "pageCacheLockTimeMills": "0",  # appends are done on the loop that answers this: none is under way
        }

    def _put_latency_ms(self, share: float, latencies: Mapping[str, int]) -> float:
        waited = None if self._put_times is None else self._put_times.quantile_ms(share)
        return self._rates.latency_ms(share, dict(latencies)) if waited is None else waited

    def _of_recovery(self) -> dict[str, str]:
        """What opening the store did, and where it would start if this process were killed now; ours alone."""
        store = self._store_loop.store
        report = store.recovery
        return {
            "lastRecoveryClean": "true" if report.closed_cleanly else "false",
            "lastRecoverySeconds": f"{report.seconds:.3f}",
            "lastRecoveryCheckedBytes": str(max(0, report.log_end - report.started_at)),
            "lastRecoveryTruncatedBytes": str(report.truncated_bytes),
            "lastRecoveryDamagedRanges": str(len(report.damaged)),
            "recoveryStartOffset": str(store.statistics()["recoveryStartOffset"]),
        }

    def _of_disk(self) -> dict[str, str]:
        """On a worker thread: all of this asks the file system."""
        logs, queues = self._store_loop.store.inspector.used_ratios()
        earliest = self._store_loop.store.inspector.earliest_store_time()
        blocks = os.statvfs(self._store_loop.store.path)
        total, free = blocks.f_blocks * blocks.f_frsize, blocks.f_bavail * blocks.f_frsize
        result = {f"commitLogDiskRatio_{folder}": str(ratio) for folder, ratio in logs.items()}
        return result | {
            "commitLogDiskRatio": str(min(logs.values(), default=0.0)),
            "consumeQueueDiskRatio": str(queues),
            "earliestMessageTimeStamp": str(-1 if earliest is None else earliest),
            "commitLogDirCapacity": f"Total : {format_bytes(total)}, Free : {format_bytes(free)}.",
        }

    def _of_requests(self) -> dict[str, str]:
        now = asyncio.get_running_loop().time()  # what lanes measure waiting by
        result = {}
        for name, key in _QUEUES.items():
            lane = self._table.lanes[name]
            result[f"{key}Size"] = str(lane.waiting)
            result[f"{key}Capacity"] = str(lane.queue_max)
            result[f"{key}HeadWaitTimeMills"] = str(max(0, lane.head_wait_ms(now)))
        transactions = self._table.lanes["end_transaction"]
        result["EndTransactionQueueSize"] = str(transactions.waiting)
        result["EndTransactionThreadPoolQueueCapacity"] = str(transactions.queue_max)
        return result

    def _of_totals(self) -> dict[str, str]:
        statistics = self._statistics
        return {
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_TEXT,
            "msgPutTotalYesterdayMorning": str(statistics.put_total_yesterday_morning),
            "msgPutTotalTodayMorning": str(statistics.put_total_today_morning),
            "msgPutTotalTodayNow": str(statistics.put_total),
            "msgGetTotalYesterdayMorning": str(statistics.get_total_yesterday_morning),
            "msgGetTotalTodayMorning": str(statistics.get_total_today_morning),
            "msgGetTotalTodayNow": str(statistics.get_total),
            "startAcceptSendRequestTimeStamp": str(self._options.start_accept_send_request_time_stamp),
        }


def format_runtime(milliseconds: int) -> str:
    """``[ 0 days, 0 hours, 3 minutes, 2 seconds ]``."""
    minutes, seconds = divmod(max(0, milliseconds) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def format_bytes(count: int) -> str:
    """``3.6 KiB``."""
    if count < 1024:
        return f"{count} B"
    exponent = min((count.bit_length() - 1) // 10, 6)
    return f"{count / 1024**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"
