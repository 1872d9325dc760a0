"""A store directory seen from outside without its lock: by planners and readers, while a broker writes or after it.

What a view tells is a promise that outlives it: the end of a queue is pinned at planning and read later, by other
processes. So an offset counts only if its unit leads to a record that stands whole in the log and names that unit,
and the log is synced as far as it is told (``pin``; any process may do that): nothing is planned that a power cut
could take away.

* While somebody holds the store, the queue files tell, and what dispatch has not written yet is not there yet.
* At rest after a kill, records behind the last checkpoint may have no units yet; the view walks that tail of the log
  and shows the units recovery would write (``tail``). Everybody who looks finds the same.

Nothing is written: no lock is taken, no file is made. (A lease, ``engine/leases.py``, is the caller's own decision.)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from flaremq.errors import FlareMQError
from flaremq.message.record.layout import HEADER, MAGIC_V1, MAGIC_V2, store_timestamp_at
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.queues import StoredQueue, find_topic_queues
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files import locks as store_lock
from flaremq.storage.files.directory import FileRun, find_run
from flaremq.storage.files.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE
from flaremq.storage.queue.consume_queue import UnitPlace
from flaremq.storage.queue.search import Answer, by_halves, first_behind, last_whole

if TYPE_CHECKING:
    from flaremq.storage.at_rest.tail import StoreTail
    from flaremq.storage.at_rest.unit_arrays import ScanQueue

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """[min_offset, max_offset) of a queue, and where its last record ends in the log (0 without one)."""

    min_offset: int
    max_offset: int
    physical_end: int


class StoreView:
    """One look at a store. Not thread-safe; ``refresh`` looks again."""

    def __init__(self, path: str | os.PathLike[str], index_geometry: IndexGeometry | None = None) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._index_geometry = index_geometry
        self._look()

    def _look(self) -> None:
        self._reader = StoreReader.open(self._path, index_geometry=self._index_geometry, lock=False)
        self._is_held: bool | None = None
        self._tail: tuple[frozenset[str] | None, StoreTail] | None = None  # of these topics (None: of all)

    @property
    def root(self) -> str:
        return self._path

    @property
    def reader(self) -> StoreReader:
        """Files, log and index of this look."""
        return self._reader

    def refresh(self) -> None:
        """Look again: files came and went, queues grew, a broker started or stopped."""
        self._reader.close()
        self._look()

    @property
    def is_held(self) -> bool:
        """Whether a process (maybe this one) has the store open."""
        if self._is_held is None:
            self._is_held = store_lock.is_locked(self._reader.layout.lock)
        return self._is_held

    @property
    def needs_recovery(self) -> bool:
        """At rest, but not closed cleanly: queue files may lag behind the log."""
        return not self.is_held and not self._reader.closed_cleanly

    @property
    def tail_start(self) -> int:
        """Where the undispatched tail of a killed store begins in the log."""
        return self._tail_of(None).start

    # Queues

    def topics(self) -> list[str]:
        """Every topic with a queue, sorted."""
        filesystem, layout = self._reader.filesystem, self._reader.layout
        found = set(self._tail_of(None).topics) if self.needs_recovery else set()
        for folder in (layout.consume_queue, layout.batch_consume_queue):
            for topic in filesystem.list_directory(folder):
                if filesystem.is_directory(os.path.join(folder, topic)):
                    found.add(topic)
        return sorted(found)

    def queues(self, topics: Collection[str]) -> list[ScanQueue]:
        """The queues of these topics, by topic and number."""
        from flaremq.storage.at_rest.unit_arrays import ScanQueue

        wanted = sorted(set(topics))
        tail = self._tail_of(frozenset(wanted)) if self.needs_recovery else None
        found: list[ScanQueue] = []
        for topic in wanted:
            stored: dict[int, StoredQueue] = {}
            for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
                for queue in find_topic_queues(self._reader.files, self._reader.layout, topic, kind):
                    if queue.run.files:
                        stored[queue.queue_id] = queue
            undispatched = {} if tail is None else tail.queues(topic)
            for queue_id in sorted(stored.keys() | undispatched.keys()):
                found.append(ScanQueue(topic, queue_id, stored.get(queue_id), undispatched.get(queue_id)))
        return found

    def _tail_of(self, topics: frozenset[str] | None) -> StoreTail:
        """The undispatched tail; remembered for the last question."""
        from flaremq.storage.at_rest.tail import StoreTail

        if self._tail is None or not (self._tail[0] is None or (topics is not None and topics <= self._tail[0])):
            self._tail = topics, StoreTail.read(self._reader, topics)
        return self._tail[1]

    # Extents

    def log_start(self, topic: str) -> int:
        """The first physical offset at which a record of this topic counts."""
        return max(self._reader.log_min, self._reader.deleted.end_of(topic))

    def ends_of(self, queue: ScanQueue) -> QueueEnds:
        """What the queue holds now, cut back to records that stand whole in the log."""
        low, high = queue.file_start, queue.file_end
        if queue.tail is not None:
            high = int(queue.tail.offset[-1] + queue.tail.messages[-1])
        last = self._last_whole(queue, low, high)
        if last is None:
            return QueueEnds(high, high, 0)
        first = self.first_from(queue, low, last.end, self.log_start(queue.topic))
        return QueueEnds(first, last.end, last.physical + last.size)

    def pin(self, physical_end: int) -> None:
        """Make the log durable up to here (at least)."""
        reader = self._reader
        run = reader.log.run
        if not run.files or physical_end <= run.start:
            return
        known = reader.offsets.log_durable if reader.offsets is not None else 0
        if reader.closed_cleanly and reader.offsets is None and not self.is_held:
            return  # a broker that stopped has flushed
        if known >= physical_end:
            return
        files = [file for file in run.files if file.start < physical_end and file.end > known]
        for file in files if reader.offsets is not None else files[-2:]:
            try:
                reader.files.get(file.path).sync()
            except FlareMQError as error:
                _log.warning("%s could not be synced before it is read: %s", file.path, error)

    def offset_by_time(self, queue: ScanQueue, timestamp_ms: int, ends: QueueEnds | None = None) -> int:
        """The first offset stored at or after this time, the end if there is none; by halves, as brokers search.

        Who knows the ends of the queue already gives them: finding them is a search as well.
        """

        def ask(offset: int, end: int) -> Answer | None:
            while offset < end:  # a filler or damaged record says nothing: its successor is asked
                unit = queue.unit_at(offset)
                time = None if unit is None else self._store_timestamp(unit.physical)
                if unit is not None and time is not None:
                    return unit.offset, unit.end, time >= timestamp_ms
                offset = max(offset + 1, 0 if unit is None else unit.end)
            return None

        ends = ends or self.ends_of(queue)
        return by_halves(ask, ends.min_offset, ends.max_offset)

    def _store_timestamp(self, physical: int) -> int | None:
        head = self._reader.log.read(physical, 80)
        if len(head) < 80:
            return None
        fields = HEADER.unpack_from(head)
        if fields[6] != physical:
            return None
        at = store_timestamp_at(fields[7])
        return int.from_bytes(head[at : at + 8], "big", signed=True)

    # Searching

    def is_whole(self, queue: ScanQueue, offset: int, physical: int, size: int) -> bool:
        """Whether a record with this place and size stands in the log and is the one of this queue offset."""
        log = self._reader.log
        file = log.run.file_at(physical)
        if file is None and physical >= log.run.end and self.is_held:
            log.run = self._open_log_run()  # the log went on to a new file since we looked
            file = log.run.file_at(physical)
        if file is None or physical + size > file.end:
            return False
        head = log.read_file(file, physical - file.start, HEADER.size)
        if len(head) < HEADER.size:
            return False
        stated, magic, _, queue_id, _, queue_offset, own, _, _ = HEADER.unpack(head)
        return (
            stated == size
            and magic in (MAGIC_V1, MAGIC_V2)
            and own == physical
            and queue_id == queue.queue_id
            and queue_offset == offset
        )

    def _open_log_run(self) -> FileRun:
        return find_run(self._reader.filesystem, self._reader.layout.commit_log_paths)

    def _last_whole(self, queue: ScanQueue, low: int, high: int) -> UnitPlace | None:
        """The last unit below ``high`` that leads to its record."""
        log_end = self._tail_of(frozenset([queue.topic])).log_end if self.needs_recovery else None

        def probe(offset: int) -> UnitPlace | None:
            unit = queue.unit_at(offset)
            if unit is None or not unit.is_real or (log_end is not None and unit.physical + unit.size > log_end):
                return None
            return unit if self.is_whole(queue, unit.offset, unit.physical, unit.size) else None

        return last_whole(probe, lambda offset: self._is_before_log(queue, offset), low, high)

    def _is_before_log(self, queue: ScanQueue, offset: int) -> bool:
        unit = queue.unit_at(offset)
        return unit is not None and (unit.is_filler or (unit.size > 0 and unit.physical < self._reader.log_min))

    def first_from(self, queue: ScanQueue, low: int, high: int, physical: int) -> int:
        """The first offset in [low, high) whose record lies at or behind ``physical``; ``high`` if there is none."""
        log_end = self._reader.log.run.end

        def ask(offset: int, end: int) -> Answer | None:
            unit = queue.next_real(offset, end, log_end)
            return None if unit is None else (unit.offset, unit.end, unit.physical >= physical)

        return queue.past_filler(first_behind(ask, low, high), high)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
