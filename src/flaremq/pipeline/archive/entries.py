"""What an archive's manifest speaks of: runs of a queue, the files that hold them, gaps. Values and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from flaremq.errors import CorruptionError
from flaremq.pipeline.model.spans import QueueRef, Span

DELETED: Final = "deleted"  # by retention, before they could be archived
UNREADABLE: Final = "unreadable"  # damaged, or lost with a file of the log


class QueueRun(NamedTuple):
    """Offsets [start, end) of one queue: every message of them, ``messages`` in all, lies in one file.

    Their number may be less than the distance: offsets without a message are covered, not lost. ``size_bytes`` is
    what the messages took in the log. Times are store times in milliseconds, -1 without a message. ``last_offset`` and
    ``last_physical`` are the places of the last message in queue and log: they tell whether a log that goes on behind
    the run is the one it came from. Archives from before they were kept have -1.
    """

    queue: QueueRef
    start: int
    end: int
    messages: int
    size_bytes: int
    first_ms: int
    last_ms: int
    min_ms: int
    max_ms: int
    digest: str  # RowDigest.text of the messages
    last_offset: int = -1
    last_physical: int = -1

    def to_json(self) -> dict[str, Any]:
        queue, *numbers = self
        return {"brokerName": queue.broker, "queueId": queue.queue_id, **dict(zip(_RUN_KEYS, numbers, strict=True))}


# The fields of a run behind its queue, as JSON names them; the last two are missing in older archives.
_RUN_KEYS: Final = (
    "from",
    "to",
    "count",
    "storeSize",
    "firstStoreTimestamp",
    "lastStoreTimestamp",
    "minStoreTimestamp",
    "maxStoreTimestamp",
    "digest",
    "lastQueueOffset",
    "lastPhysicalOffset",
)


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A data file and what it holds. Without a ``path``: runs that have no message, so no file."""

    topic: str
    day: str
    path: str | None
    rows: int
    size_bytes: int
    sha256: str
    tail_bytes: int  # the footer: where everything is; Parquet itself has no checksum for it
    tail_crc32: int
    runs: tuple[QueueRun, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "day": self.day,
            "path": self.path,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "sha256": self.sha256,
            "tailBytes": self.tail_bytes,
            "tailCrc32": self.tail_crc32,
            "runs": [run.to_json() for run in self.runs],
        }


@dataclass(frozen=True, slots=True)
class ArchiveGap:
    """Offsets that the archive does not hold and never will; ``reason`` says what had become of them in the log."""

    span: Span
    noticed_ms: int
    reason: str = DELETED

    def to_json(self) -> dict[str, Any]:
        queue = self.span.queue
        return {
            "topic": queue.topic,
            "brokerName": queue.broker,
            "queueId": queue.queue_id,
            "from": self.span.start,
            "to": self.span.end,
            "noticedMs": self.noticed_ms,
            "reason": self.reason,
        }


def file_from_json(value: Mapping[str, Any]) -> ArchiveFile:
    try:
        topic = value["topic"]
        runs = tuple(_run_from_json(topic, run) for run in value["runs"])
        tail = value["tailBytes"], value["tailCrc32"]
        size = value["bytes"]
        return ArchiveFile(topic, value["day"], value["path"], value["rows"], size, value["sha256"], *tail, runs)
    except (KeyError, TypeError) as error:
        raise CorruptionError(f"a manifest entry lacks {error}", found=value) from error


def gap_from_json(value: Mapping[str, Any]) -> ArchiveGap:
    try:
        queue = QueueRef(value["topic"], value["brokerName"], value["queueId"])
        return ArchiveGap(Span(queue, value["from"], value["to"]), value["noticedMs"], value.get("reason", DELETED))
    except (KeyError, TypeError) as error:
        raise CorruptionError(f"a manifest entry lacks {error}", found=value) from error


def _run_from_json(topic: str, value: Mapping[str, Any]) -> QueueRun:
    queue = QueueRef(topic, value["brokerName"], value["queueId"])
    return QueueRun(queue, *(value[key] for key in _RUN_KEYS[:-2]), *(value.get(key, -1) for key in _RUN_KEYS[-2:]))
