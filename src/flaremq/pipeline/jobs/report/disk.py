"""Room on disk: what a store takes, how fast it grows, and when its disk has no more.

RocketMQ keeps log files for ``fileReservedTime`` hours, so growth ends by itself where rate times hours fits the
disk. If it does not, three marks come first: at ``diskMaxUsedSpaceRatio`` (75 %) files are deleted before their time,
at 85 % without regard to it, at 90 % writes are refused. The days until each are what an operator plans with.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Any

from flaremq.storage.at_rest.reader import find_log_folders
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.layout import StoreLayout, is_file_name, is_index_name

DAY_MS = 86_400_000
SHORT_MS = 3_600_000  # below an hour, a rate per day is an extrapolation that the reader must know of
MARKS = ((0.75, "cleaning starts early"), (0.85, "files are deleted regardless of age"), (0.90, "writes are refused"))


@dataclass(frozen=True, slots=True)
class FolderUse:
    """The files of one part of a store."""

    name: str
    files: int
    size_bytes: int  # as the files say
    allocated_bytes: int  # what the disk gives them: preallocated files have holes


@dataclass(frozen=True, slots=True)
class StoreDisk:
    """One store and the file system it is on."""

    broker: str
    path: str
    folders: tuple[FolderUse, ...]
    total_bytes: int
    free_bytes: int
    oldest_file_ms: int | None  # when the oldest log file was last written

    @property
    def used_ratio(self) -> float:
        return 1 - self.free_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def allocated_bytes(self) -> int:
        return sum(folder.allocated_bytes for folder in self.folders)


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes a store gains, and for how long that can go on."""

    log_bytes: int
    span_ms: int
    bytes_per_day: float  # log, queues and index together
    is_extrapolated: bool
    reserved_hours: int
    steady_bytes: float  # what the store comes to when as much is deleted as is written
    days_until: dict[str, float | None]  # by used share of the disk; None: never, retention holds it below

    def to_json(self) -> dict[str, Any]:
        return {
            "logBytes": self.log_bytes,
            "spanMs": self.span_ms,
            "bytesPerDay": round(self.bytes_per_day),
            "isExtrapolated": self.is_extrapolated,
            "fileReservedTimeHours": self.reserved_hours,
            "steadyBytes": round(self.steady_bytes),
            "daysUntil": self.days_until,
        }


def measure_disk(broker: str, path: str) -> StoreDisk:
    """What the store at ``path`` takes now."""
    layout = StoreLayout(path, find_log_folders(LocalFileSystem(), path))
    log = [entry.stat() for folder in layout.commit_log_paths for entry in _files(folder) if is_file_name(entry.name)]
    queues = [
        os.stat(os.path.join(folder, name))
        for root in (layout.consume_queue, layout.consume_queue_ext, layout.batch_consume_queue)
        for folder, _, names in os.walk(root)
        for name in filter(is_file_name, names)
    ]
    index = [entry.stat() for entry in _files(layout.index) if is_index_name(entry.name)]
    usage = shutil.disk_usage(path)
    folders = tuple(
        FolderUse(
            name, len(found), sum(status.st_size for status in found), sum(512 * status.st_blocks for status in found)
        )
        for name, found in (("commitlog", log), ("consumequeue", queues), ("index", index))
    )
    oldest = min((file.st_mtime for file in log), default=None)
    # What root alone may use is no room for a broker: count it as taken, as df does.
    return StoreDisk(
        broker, path, folders, usage.used + usage.free, usage.free, None if oldest is None else int(oldest * 1000)
    )


def forecast(disk: StoreDisk, *, log_bytes: int, span_ms: int, reserved_hours: int) -> Growth | None:
    """What comes of writing ``log_bytes`` in ``span_ms`` on and on; None if that says nothing."""
    if log_bytes <= 0 or span_ms <= 0:
        return None
    log_allocated = disk.folders[0].allocated_bytes
    overhead = disk.allocated_bytes / log_allocated if log_allocated else 1.0
    per_day = log_bytes * overhead * DAY_MS / span_ms
    steady = per_day * reserved_hours / 24
    elsewhere = disk.total_bytes - disk.free_bytes - disk.allocated_bytes
    days: dict[str, float | None] = {}
    for mark in (*(mark for mark, _ in MARKS), 1.0):
        room = disk.total_bytes * mark - (disk.total_bytes - disk.free_bytes)
        is_held = elsewhere + steady <= disk.total_bytes * mark
        days[f"{mark:.0%}"] = None if is_held else round(max(room, 0) / per_day, 2)
    return Growth(log_bytes, span_ms, per_day, span_ms < SHORT_MS, reserved_hours, steady, days)


def disk_json(disk: StoreDisk) -> dict[str, Any]:
    return {
        "brokerName": disk.broker,
        "path": disk.path,
        "folders": [
            {"name": f.name, "files": f.files, "bytes": f.size_bytes, "allocatedBytes": f.allocated_bytes}
            for f in disk.folders
        ],
        "diskTotalBytes": disk.total_bytes,
        "diskFreeBytes": disk.free_bytes,
        "diskUsedRatio": round(disk.used_ratio, 4),
        "oldestLogFileMs": disk.oldest_file_ms,
    }


def _files(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.is_file()]
    except FileNotFoundError:
        return []
