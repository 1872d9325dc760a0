"""What an archive's manifest speaks of: runs of a queue, the files that hold them, gaps. Values and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from flaremq.errors import CorruptionError
from flaremq.pipeline.spans import QueueRef, Span


class QueueRun(NamedTuple):
    """Offsets [start, end) of one queue: every message of them, ``messages`` in all, lies in one file.

    Their number may be less than the distance: offsets without a message are covered, not lost. ``size_bytes`` is
    what the messages took in the log. Times are store times in milliseconds, -1 without a message.
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

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerName": self.queue.broker,
            "queueId": self.queue.queue_id,
            "from": self.start,
            "to": self.end,
            "count": self.messages,
            "storeSize": self.size_bytes,
            "firstStoreTimestamp": self.first_ms,
            "lastStoreTimestamp": self.last_ms,
            "minStoreTimestamp": self.min_ms,
            "maxStoreTimestamp": self.max_ms,
            "digest": self.digest,
        }


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
    """Offsets that were gone from the log before they could be archived."""

    span: Span
    noticed_ms: int

    def to_json(self) -> dict[str, Any]:
        queue = self.span.queue
        return {
            "topic": queue.topic,
            "brokerName": queue.broker,
            "queueId": queue.queue_id,
            "from": self.span.start,
            "to": self.span.end,
            "noticedMs": self.noticed_ms,
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
        return ArchiveGap(Span(queue, value["from"], value["to"]), value["noticedMs"])
    except (KeyError, TypeError) as error:
        raise CorruptionError(f"a manifest entry lacks {error}", found=value) from error


def _run_from_json(topic: str, value: Mapping[str, Any]) -> QueueRun:
    return QueueRun(
        QueueRef(topic, value["brokerName"], value["queueId"]),
        value["from"],
        value["to"],
        value["count"],
        value["storeSize"],
        value["firstStoreTimestamp"],
        value["lastStoreTimestamp"],
        value["minStoreTimestamp"],
        value["maxStoreTimestamp"],
        value["digest"],
    )
