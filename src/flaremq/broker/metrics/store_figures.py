"""The store, for metrics: what is behind, how old and large it is, how full the disk, what recovery found."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

from flaremq.broker.metrics import catalogue as told
from flaremq.broker.metrics.disk_growth import DiskGrowth
from flaremq.storage.engine.inspection import LogFiles

if TYPE_CHECKING:
    from flaremq.broker.parts import BrokerState
    from flaremq.metrics.samples import Samples
    from flaremq.storage.message_store import MessageStore


class _Disk(NamedTuple):
    """What only the disk knows."""

    size: int
    used: int
    ratio: float
    earliest_ms: int | None
    files: LogFiles


class StoreFigures:
    """The store of one broker. Event loop only."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._store: MessageStore = state.store_loop.store
        self.growth = DiskGrowth()

    async def look(self) -> None:
        """Once a minute: note how full the disk is."""
        size, used = await self._state.store_loop.run(_used, self._store.path)
        self.growth.note(self._state.clock.monotonic(), used, size)

    async def tell(self, samples: Samples) -> None:
        store, state = self._store, self._state
        samples.add(told.FLUSH_BEHIND, max(0, store.max_physical_offset - store.flushed_offset))
        samples.add(told.DISPATCH_BEHIND, store.dispatch_lag_bytes)
        samples.add(told.DISPATCH_LAG, store.dispatch_lag_bytes)
        disk = await state.store_loop.run(self._ask_disk)
        now_ms = state.clock.now_ms()
        samples.add(told.STORAGE_SIZE, disk.used)
        if disk.earliest_ms is not None and store.max_physical_offset > store.min_physical_offset:
            samples.add(told.RESERVE_TIME, max(0, now_ms - disk.earliest_ms))
        samples.add(told.DISK_USED, disk.ratio)
        self.growth.note(state.clock.monotonic(), disk.used, disk.size)
        samples.add(told.DISK_FULL_DAYS, self.growth.days_left())
        samples.add(told.LOG_FILES, disk.files.files)
        if disk.files.oldest_newest_ms is not None:
            samples.add(told.OLDEST_FILE, max(0, now_ms - disk.files.oldest_newest_ms) / 1000)
        samples.add(told.RETENTION, store.options.file_reserved_time * 3600)
        samples.add(told.DELETED_FILES, disk.files.deleted)
        samples.add(told.CLEANING_FAILURES, disk.files.failed_rounds)
        self._tell_health(samples)

    def _tell_health(self, samples: Samples) -> None:
        recovery, statistics = self._store.recovery, self._store.statistics()
        samples.add(told.RECOVERY_SECONDS, recovery.seconds)
        samples.add(told.RECOVERY_RECORDS, max(0, recovery.log_end - recovery.started_at), "checked_bytes")
        samples.add(told.RECOVERY_RECORDS, recovery.truncated_bytes, "truncated_bytes")
        samples.add(told.RECOVERY_RECORDS, len(recovery.damaged), "set_aside")
        samples.add(told.DAMAGED_RECORDS, statistics["damagedLogRanges"])
        samples.add(told.SET_ASIDE_RECORDS, self._state.schedule.set_aside_count + self._state.timer.set_aside_count)

    def _ask_disk(self) -> _Disk:
        """On a worker thread."""
        size, used = _used(self._store.path)
        inspector = self._store.inspector
        logs, queues = inspector.used_ratios()
        ratio = max(min(logs.values(), default=0.0), queues)
        return _Disk(size, used, ratio, inspector.earliest_store_time(), inspector.log_files())


def _used(path: str) -> tuple[int, int]:
    """Bytes of the file system, and those in use."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return 0, 0
    return usage.total, usage.total - usage.free
