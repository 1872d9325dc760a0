"""What a store at rest should hold and does not: lost queue files, lost log files, lost ends of either.

A reader that believes the files finds fewer rows in a store that lost some, and no error. So a plan first looks for
contradictions that are cheap to find; how long the log is does not matter.

* A unit leads into a hole of the log: damage whoever uses the store, now or before.
* After a clean stop (no ``abort``, nobody has the store open) every record of the log has its unit and every unit its
  record. Then the last unit of a queue must lead to its record, a queue has no hole, does not start above the log's
  start, and ends where our own note ``flaremq.queues`` says. A store of RocketMQ has no such note: there the records
  at the end of the log must have their units, and those behind a queue whose last file is full to its last byte.

A topic that neither has a folder nor is in ``config/topics.json`` was deleted: its records are no evidence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from flaremq.errors import CorruptionError
from flaremq.message.record.codec import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from flaremq.message.topics import is_system_topic
from flaremq.storage.at_rest.tail import units_between
from flaremq.storage.at_rest.unit_arrays import ScanQueue, Units
from flaremq.storage.at_rest.view import StoreView
from flaremq.storage.files.checkpoint import OffsetsFile, parse_hints
from flaremq.storage.files.directory import FileRun, find_run, read_small_file
from flaremq.storage.files.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE
from flaremq.storage.log.walk import find_record
from flaremq.storage.queue.consume_queue import UnitPlace
from flaremq.storage.queue.table import QueueId

_END_BYTES = 16 << 20  # of the log's end, whose records are held against the queues
_SEARCH_BYTES = 256 << 20  # how far behind or before a suspicious queue its next record is looked for
_ADVICE = "set failOnDataLoss=false to read what is there"


def find_gap(view: StoreView, queues: Sequence[ScanQueue], wanted: Callable[[str], bool]) -> CorruptionError | None:
    """The first contradiction about these queues, or about others whose topic is wanted; None for a sound store."""
    return next(_Search(view, queues, wanted).gaps(), None)


class _Hole(NamedTuple):
    """Bytes [start, end) of a run that no file holds; ``text`` says which file should."""

    start: int
    end: int
    text: str
    path: str


class _Search:
    def __init__(self, view: StoreView, queues: Sequence[ScanQueue], wanted: Callable[[str], bool]) -> None:
        self._view = view
        self._reader = view.reader
        self._log = view.reader.log
        self._queues = {(queue.topic, queue.queue_id): queue for queue in queues}
        self._wanted = wanted

    def gaps(self) -> Iterator[CorruptionError]:
        yield from self._log_holes()
        if self._view.is_held:
            return
        noted = self._noted_ends() if self._reader.closed_cleanly else None
        if noted is None:
            yield from self._no_queues()
        if not self._reader.closed_cleanly:
            return
        for queue in self._queues.values():
            yield from self._queue_holes(queue)
            yield from self._lost_record(queue)
            yield from self._lost_start(queue)
        if noted is not None:
            yield from self._short_of(noted)
        if noted is None or self._reader.filesystem.exists(self._reader.layout.batch_consume_queue):
            yield from self._lost_ends(batches_only=noted is not None)

    # The log

    def _log_holes(self) -> Iterator[CorruptionError]:
        holes = list(_holes(self._log.run, "commit log"))
        if holes and self._view.is_held:  # a file may have been made while the folders were listed
            holes = list(_holes(find_run(self._reader.filesystem, self._reader.layout.commit_log_paths), "commit log"))
        for hole in holes:
            for queue in self._queues.values():
                start = max(hole.start, self._view.log_start(queue.topic))
                offset = self._view.first_from(queue, queue.file_start, queue.file_end, start)
                unit = queue.unit_at(offset) if offset < queue.file_end else None
                if unit is not None and unit.is_real and start <= unit.physical < hole.end:
                    yield self._log_error(f"messages of {_name(queue)} from offset {offset} on", hole.text, hole.path)

    def _lost_record(self, queue: ScanQueue) -> Iterator[CorruptionError]:
        """The last unit must lead to its record, unless that has expired."""
        if queue.file_end <= queue.file_start:
            return
        last = queue.unit_at(queue.file_end - 1)
        if last is None or last.is_filler or (last.is_real and last.physical < self._view.log_start(queue.topic)):
            return
        if last.is_real and self._view.is_whole(queue, last.offset, last.physical, last.size):
            return
        what = f"the record of queue offset {last.offset} of {_name(queue)}"
        run = self._log.run
        file = run.file_at(last.physical)
        if not run.files:
            why, path = "the commit log is missing", self._reader.layout.commit_log_paths[0]
        elif file is not None and last.physical + last.size <= file.end:
            why, path = f"no such record stands at physical offset {last.physical}", file.path
        else:
            why, path = f"the commit log ends before physical offset {last.physical}", run.files[-1].path
        yield self._log_error(what, why, path)

    # Queues

    def _no_queues(self) -> Iterator[CorruptionError]:
        """No queue at all beside a log with records."""
        layout, reader = self._reader.layout, self._reader
        if any(_has_files(folder) for folder in (layout.consume_queue, layout.batch_consume_queue)):
            return
        if not reader.closed_cleanly and self._view.tail_start <= reader.log_min:
            return  # killed before its first checkpoint: all units come from the log
        if reader.read(reader.log_min) is not None:
            yield self._error("messages", "the log holds records, but there is no queue file", layout.consume_queue)

    def _queue_holes(self, queue: ScanQueue) -> Iterator[CorruptionError]:
        if queue.stored is None:
            return
        for hole in _holes(queue.stored.run, "queue"):
            step = queue.stored.unit_size
            what = "" if queue.is_batch else f", offsets {hole.start // step} to {hole.end // step - 1}"
            yield self._error(f"messages of {_name(queue)}{what}", hole.text, hole.path)

    def _lost_start(self, queue: ScanQueue) -> Iterator[CorruptionError]:
        """A queue that starts above 0 lost its start to retention, which takes the log first."""
        if queue.stored is None or not queue.stored.run.start:
            return
        start, log_start = queue.file_start, self._view.log_start(queue.topic)
        first = queue.unit_at(start)
        if first is None or not first.is_real or first.physical <= log_start:
            return
        if log_start > 0:
            begin = find_record(self._log, max(log_start, first.physical - _SEARCH_BYTES))
            if begin is None or queue.is_batch:
                return
            found = self._units(begin, first.physical, queue.topic).get((queue.topic, queue.queue_id))
            if found is None or not ((found.offset < start) & (found.physical < first.physical)).any():
                return
        why = f"the log holds them, but the queue starts at {start}"
        yield self._error(f"messages of {_name(queue)} before offset {start}", why, queue.stored.folder)

    def _short_of(self, noted: dict[QueueId, int]) -> Iterator[CorruptionError]:
        """Queues that end before the offset noted when the store was closed."""
        for place, end in sorted(noted.items()):
            if end <= 0 or not self._wanted(place[0]) or self._was_deleted(place):
                continue
            queue = self._queues.get(place)
            found = 0 if queue is None else queue.file_end
            if found < end:
                why = f"the queue ended at {end} when the store was closed, and now ends at {found}"
                what = f"messages of {place[0]}/{place[1]} from offset {found} on"
                yield self._error(what, why, self._folder(place))

    def _lost_ends(self, *, batches_only: bool) -> Iterator[CorruptionError]:
        """Records at the end of the log, and behind full queue files, that have no unit."""
        start, end = self._end_window()
        for place, units in sorted(self._units(start, end, None).items()):
            if not self._wanted(place[0]) or (batches_only and (units.messages == 1).all()):
                continue
            # In a log that is whole, a queue without its first message is a record that names a wrong queue.
            if place in self._queues or start > 0 or units.offset[0] == 0:
                yield from self._without_unit(place, units)
        for place, queue in self._queues.items():
            last = self._last(queue)
            if last is None or batches_only or queue.is_batch or not _is_full(queue) or last.physical >= start:
                continue
            begin = last.physical + last.size
            found = self._units(begin, min(start, begin + _SEARCH_BYTES), queue.topic).get(place)
            if found is not None and self._view.is_whole(queue, last.offset, last.physical, last.size):
                yield from self._without_unit(place, found)

    def _without_unit(self, place: QueueId, units: Units) -> Iterator[CorruptionError]:
        queue = self._queues.get(place)
        if queue is None and self._was_deleted(place):
            return
        last = None if queue is None else self._last(queue)
        # Behind the last unit's record: before the first one's may be records of a deleted topic of this name.
        lost = units.physical > (-1 if last is None else last.physical)
        if lost.any():
            first = units.choose(lost)
            what = f"messages of {place[0]}/{place[1]} from offset {int(first.offset[0])} on"
            why = f"the log holds them from physical offset {int(first.physical[0])} on, but no unit leads to them"
            yield self._error(what, why, self._folder(place))

    # Asking

    def _noted_ends(self) -> dict[QueueId, int] | None:
        """Queue ends as we noted them at the clean stop; None if there is no note, or somebody went on since."""
        reader, layout = self._reader, self._reader.layout
        offsets = OffsetsFile.peek(reader.filesystem, layout.offsets)
        data = read_small_file(reader.filesystem, layout.queue_hints)
        if offsets is None or offsets.log_end < 0 or data is None:
            return None
        head = self._log.read(offsets.log_end, 8)
        if int.from_bytes(head[4:], "big", signed=True) in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
            return None
        try:
            hints = parse_hints(data)
            if hints["logEnd"] != offsets.log_end:
                return None
            return {(topic, queue_id): end for topic, queue_id, end in hints["queues"]}
        except (ValueError, KeyError, TypeError):
            return None

    def _was_deleted(self, place: QueueId) -> bool:
        """Whether a queue that is not there may be gone with its topic."""
        layout = self._reader.layout
        if any(os.path.isdir(layout.path(kind, place[0])) for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE)):
            return False
        known = self._reader.known_topics
        return known is not None and place[0] not in known and not is_system_topic(place[0])

    def _last(self, queue: ScanQueue) -> UnitPlace | None:
        last = queue.unit_at(queue.file_end - 1) if queue.file_end > queue.file_start else None
        return last if last is not None and last.is_real else None

    def _units(self, start: int, end: int, topic: str | None) -> dict[QueueId, Units]:
        return units_between(self._reader, start, end, None if topic is None else frozenset([topic]))

    def _end_window(self) -> tuple[int, int]:
        """Where the last records of the log begin, and where it ends at most."""
        end = self._log.written_end()
        low = end - _END_BYTES
        start = self._log.run.start if low <= self._log.run.start else find_record(self._log, low)
        return (end if start is None else start), end + _SEARCH_BYTES

    def _folder(self, place: QueueId) -> str:
        queue = self._queues.get(place)
        if queue is not None and queue.stored is not None:
            return queue.stored.folder
        return self._reader.layout.queue_folder(*place)

    def _error(self, what: str, why: str, path: str) -> CorruptionError:
        advice = f"; flaremq pipeline rebuild --path {self._view.root} --in-place makes queues again from the log, or "
        return CorruptionError(f"{what} cannot be read: {why}", path=path, advice=f"{advice}{_ADVICE}")

    def _log_error(self, what: str, why: str, path: str) -> CorruptionError:
        return CorruptionError(f"{what} cannot be read: {why}", path=path, advice=f"; {_ADVICE}")


def _name(queue: ScanQueue) -> str:
    return f"{queue.topic}/{queue.queue_id}"


def _holes(run: FileRun, kind: str) -> Iterator[_Hole]:
    """What lies between the first and the last file and in neither."""
    for start, end in run.gaps:
        path = os.path.join(os.path.dirname(run.files[0].path), f"{start:020d}")
        yield _Hole(start, end, f"a file of the {kind} is missing", path)
    for file in run.files[:-1]:
        if file.size < run.file_size:
            yield _Hole(file.end, file.start + run.file_size, f"a file of the {kind} is cut short", file.path)


def _has_files(folder: str) -> bool:
    return any(names for _, _, names in os.walk(folder))


def _is_full(queue: ScanQueue) -> bool:
    """Whether nothing says that the last file is the last."""
    if queue.stored is None or not queue.stored.run.files:
        return False
    return (queue.file_end + 1) * queue.stored.unit_size > queue.stored.run.files[-1].end
