"""Stores as far as brokers tell: files as they follow from offsets, what is behind, how full the disk is."""

from __future__ import annotations

from typing import Any, Final

from flaremq.dashboard.data.broker_state import BrokerState, bytes_of
from flaremq.dashboard.data.files import FILE_BYTES, log_files
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.page import Page, because, page
from flaremq.digits import whole_number

_MARKS: Final = {"clean": 0.75, "force": 0.85, "refuse": 0.90}


def store_page(state: ClusterState, now_ms: int) -> Page:
    return page(state, now_ms, missing={"verify": because("verify_at_rest")}) | {
        "brokers": [_row(broker) for broker in state.brokers.values()]
    }


def file_bytes_of(broker: BrokerState) -> int:
    return whole_number((broker.config or {}).get("mappedFileSizeCommitLog")) or FILE_BYTES


def _row(broker: BrokerState) -> dict[str, Any]:
    low, high = broker.whole("commitLogMinOffset"), broker.whole("commitLogMaxOffset")
    size, config = file_bytes_of(broker), broker.config or {}
    files, count = log_files(low, high, size) if low is not None and high is not None else ([], None)
    unflushed = bytes_of(broker.told.get("remainHowManyDataToFlush", ""))
    total, free = broker.disk_bytes
    oldest, restart = broker.whole("earliestMessageTimeStamp"), broker.whole("recoveryStartOffset")
    row = {
        "id": broker.address,
        "name": broker.name,
        "address": broker.address,
        "role": broker.role,
        "up": broker.is_up,
        "files": files,
        "files_total": count,
        "file_bytes": size,
        "min_offset": low,
        "max_offset": high,
        "bytes": None if low is None or high is None else high - low,
        "flushed_offset": None if high is None or unflushed is None else high - unflushed,
        "unflushed_bytes": unflushed,
        "dispatch_behind_bytes": broker.whole("dispatchBehindBytes"),
        "oldest_ms": oldest if oldest is not None and oldest > 0 else None,
        "reserved_hours": whole_number(config.get("fileReservedTime")),
        "delete_when": config.get("deleteWhen"),
        "disk_used_ratio": broker.disk_used_ratio,
        "queue_disk_used_ratio": broker.number("consumeQueueDiskRatio"),
        "disk_total_bytes": total,
        "disk_free_bytes": free,
        "disk_full_hours": broker.disk_full_hours,
        "damaged_ranges": broker.whole("damagedLogRanges"),
        "damaged_bytes": broker.whole("damagedLogBytes"),
        "damaged_reads": broker.whole("damagedReads"),
        "repaired_units": broker.whole("repairedUnits"),
        "recovery": _recovery(broker),
        "recovery_now_bytes": None if high is None or restart is None else max(0, high - restart),
        "flush_type": config.get("flushDiskType"),
        "marks": _MARKS,
    }
    if not broker.is_up:
        row["missing"] = {"files": broker.reason}
    elif broker.config is None:
        row["missing"] = {"flush_type": "denied" if broker.config_ms else "not_read_yet"}
    return row


def _recovery(broker: BrokerState) -> dict[str, Any] | None:
    """What opening the store did; RocketMQ does not tell."""
    told = broker.told.get("lastRecoveryClean")
    if told is None:
        return None
    return {
        "clean": told == "true",
        "seconds": broker.number("lastRecoverySeconds"),
        "checked_bytes": broker.whole("lastRecoveryCheckedBytes"),
        "truncated_bytes": broker.whole("lastRecoveryTruncatedBytes"),
        "damaged_ranges": broker.whole("lastRecoveryDamagedRanges"),
    }
