"""Tables of the lakehouse that were named when the dashboard was started: what they hold, how far they are behind.

What a table covers stands in its newest commit. Opening one reads metadata, maybe over a network, so that is done on a
thread and not more often than every few seconds, however many look. The lag follows from what brokers told last.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.data.topic_state import TopicState
from flaremq.errors import FlareMQError
from flaremq.visible import visible

if TYPE_CHECKING:
    from flaremq.pipeline.tables.model.target import TableTarget

_log = logging.getLogger(__name__)
_SECONDS: Final = 10.0  # between two looks
_PATIENCE_SECONDS: Final = 5.0  # of a page for one of them
_TABLES_MAX: Final = 100  # of one name with {topic}


@dataclass(slots=True)
class _Found:
    """A table as it was read. ``covered``: the next offset by topic, broker and queue."""

    table: str
    files: int | None = None
    messages: int | None = None
    bytes: int | None = None
    version: str | None = None
    covered: dict[tuple[str, str, int], int] = field(default_factory=dict)
    error: str | None = None


class Tables:
    """Event loop thread only."""

    def __init__(self, names: Sequence[str], warehouse: str | None) -> None:
        self.names = names
        self._warehouse = warehouse
        self._found = [_Found(name, error="it is still being read") for name in names]
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def rows(self, state: ClusterState) -> list[dict[str, Any]]:
        """As they are, or as they were: a catalog that does not answer keeps no page waiting."""
        if not self.names:
            return []
        is_old = self._read_at is None or time.monotonic() - self._read_at >= _SECONDS
        if self._reading is None and is_old:
            # A copy for the thread; what the loop has belongs to the loop.
            queues = {topic.name: _queues(topic) for topic in state.topics.values() if topic.kind == "user"}
            self._reading = asyncio.create_task(self._read(queues))
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=_PATIENCE_SECONDS)
        return [_row(found, state) for found in self._found]

    async def _read(self, queues: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        try:
            self._found = await asyncio.to_thread(_look, self.names, self._warehouse, queues)
        finally:
            self._read_at, self._reading = time.monotonic(), None

    def topics(self, state: ClusterState) -> list[TopicState]:
        """Those whose ends the lag needs."""
        names = {topic for found in self._found for topic, _, _ in found.covered}
        return [topic for name in sorted(names) if (topic := state.topics.get(name)) is not None]


def _queues(topic: TopicState) -> list[tuple[str, int]]:
    return [
        (broker, queue)
        for broker, config in topic.configs.items()
        for queue in range(max(config.read_queue_nums, config.write_queue_nums))
    ]


def _look(names: Iterable[str], warehouse: str | None, queues: Mapping[str, Sequence[tuple[str, int]]]) -> list[_Found]:
    from flaremq.pipeline.tables.model.target import ICEBERG, parse_target

    found = []
    for name in names:
        target = parse_target(name, warehouse=warehouse if name.startswith(f"{ICEBERG}:") else None)
        if target.is_for_each_topic:
            for topic in sorted(queues)[:_TABLES_MAX]:
                table = _read(target.for_topic(topic), {topic: queues[topic]})
                if table is not None:
                    found.append(table)
        else:
            found.append(_read(target, queues) or _Found(target.text, error=f"there is no table {target.text}"))
    return found


def _read(target: TableTarget, queues: Mapping[str, Sequence[tuple[str, int]]]) -> _Found | None:
    from flaremq.pipeline.model.spans import QueueRef
    from flaremq.pipeline.tables.open import find_table

    try:
        table = find_table(target)
        if table is None:
            return None
        places = [QueueRef(topic, broker, queue) for topic, held in queues.items() for broker, queue in held]
        covered = {(ref.topic, ref.broker, ref.queue_id): one.next for ref, one in table.coverage(places).items()}
        files = table.live_files()
        sizes = (sum(file.rows for file in files), sum(file.size_bytes for file in files))
        return _Found(target.text, len(files), *sizes, table.version(), covered)
    except (FlareMQError, OSError) as error:
        return _Found(target.text, error=visible(str(error)))
    except Exception as error:  # catalogs are programs of others, each with errors of its own
        _log.warning("%s cannot be read", target.text, exc_info=True)
        return _Found(target.text, error=visible(f"{type(error).__name__}: {error}"))


def _row(found: _Found, state: ClusterState) -> dict[str, Any]:
    topics = sorted({topic for topic, _, _ in found.covered})
    known = [state.topics[topic] for topic in topics if topic in state.topics and state.topics[topic].is_known]
    lag = None
    if topics and len(known) == len(topics):
        lag = sum(
            max(0, ends.high - max(ends.low, found.covered.get((topic.name, *queue), 0)))
            for topic in known
            for queue, ends in topic.ends.items()
        )
    row: dict[str, Any] = {
        "id": found.table,
        "table": found.table,
        "topics": topics,
        "files": found.files,
        "messages": found.messages,
        "bytes": found.bytes,
        "version": found.version,
        "lag": lag,
        "error": found.error,
    }
    if lag is None:
        row["missing"] = {"lag": "not_read_yet" if topics else "no_data"}
    return row
