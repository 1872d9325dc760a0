"""The consume queues of a store at rest: units, ext addresses, batch units, and the range a broker would
serve.

Three folders hold queues. ``consumequeue`` has 20-byte units at position ``queue_offset * 20``. With an ext
file the unit's tags code may be an address into ``consumequeue_ext`` of the same queue; it is resolved
here, so callers always see the tag hash. ``batchconsumequeue`` has 46-byte units that each stand for
several messages and carry their own base offset.

Two kinds of unit are no data: all zero (never written) and the filler RocketMQ writes in front of a queue
that starts above 0. Neither counts as an end or a beginning: the served range is from the first to the last
real unit whose record lies within the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from flaremq.message.topics import is_stored_topic
from flaremq.storage.files import layout
from flaremq.storage.files.directory import FileRun, RunReader, find_run, nonzero_end, without_zero_tail
from flaremq.storage.files.handles import OpenFiles
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.queue.batch_consume_queue import BATCH_UNIT
from flaremq.storage.queue.consume_queue import EXT_ADDRESS_MAX, FILLER_SIZE, UNIT
from flaremq.storage.queue.consume_queue_ext import EXT_HEAD
from flaremq.storage.queue.table import QueueId

_EXT_BASE = 2**63
_CHUNK_UNITS = 1 << 14


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """One unit as stored, with the tags code resolved."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    message_count: int = 1
    ext_address: int | None = None

    @property
    def is_filler(self) -> bool:
        return self.size == FILLER_SIZE and self.physical_offset == 0

    @property
    def is_real(self) -> bool:
        return self.size > 0 and self.physical_offset >= 0 and not self.is_filler


@dataclass(frozen=True, slots=True)
class QueueRange:
    """What a broker would serve: [min_offset, max_offset)."""

    min_offset: int
    max_offset: int


class StoredQueue:
    """One queue of one topic; valid as long as the store's files are open."""

    __slots__ = ("_ext", "folder", "is_batch", "queue_id", "reader", "topic")

    def __init__(
        self,
        topic: str,
        queue_id: int,
        reader: RunReader,
        *,
        folder: str,
        is_batch: bool,
        ext: RunReader | None,
    ) -> None:
        self.topic = topic
        self.folder = folder
        self.queue_id = queue_id
        self.reader = reader
        self.is_batch = is_batch
        self._ext = ext

    @property
    def run(self) -> FileRun:
        return self.reader.run

    @property
    def unit_size(self) -> int:
        return BATCH_UNIT.size if self.is_batch else UNIT.size

    @property
    def ext_run(self) -> FileRun | None:
        return None if self._ext is None else self._ext.run

    def units(self) -> Iterator[StoredUnit]:
        """Every written unit, filler included, unwritten (all zero) ones left out."""
        return self.units_between(0, self.run.end // self.unit_size)

    def units_between(self, first: int, end: int) -> Iterator[StoredUnit]:
        """The written units with numbers (in simple queues: queue offsets) in [first, end)."""
        step = self.unit_size
        for file in self.run.files:
            start_unit = file.start // step
            stop = min(file.size // step, end - start_unit)
            number = max(first - start_unit, 0)
            while number < stop:
                count = min(_CHUNK_UNITS, stop - number)
                data = self.reader.read_file(file, number * step, count * step)
                for at in range((len(without_zero_tail(data)) + step - 1) // step):
                    unit = self._decode(data, at * step, start_unit + number + at)
                    if unit is not None:
                        yield unit
                number += count

    def read_raw(self, first: int, count: int) -> bytes:
        """The bytes of ``count`` units from number ``first`` on, across files; fewer where files end."""
        pieces: list[bytes] = []
        position, end = first * self.unit_size, (first + count) * self.unit_size
        while position < end:
            piece = self.reader.read(position, end - position)
            if not piece:
                break
            pieces.append(piece)
            position += len(piece)
        return b"".join(pieces)

    def written_end(self) -> int:
        """Number behind the last unit that is not all zero."""
        step = self.unit_size
        for file in reversed(self.run.files):
            end = nonzero_end(partial(self.reader.read_file, file), file.size // step * step)
            if end:
                return (file.start + end + step - 1) // step
        return self.run.start // step

    def unit_at(self, number: int) -> StoredUnit | None:
        """The unit at this position, None if never written or not there."""
        data = self.reader.read(number * self.unit_size, self.unit_size)
        return self._decode(data, 0, number) if len(data) == self.unit_size else None

    def range(self, *, log_min: int, log_end: int) -> QueueRange:
        """The offsets served for a log of this extent."""
        last = self._last_within(log_end)
        if last is None:
            end = self._end_of_filler()
            return QueueRange(end, end)
        max_offset = last.queue_offset + last.message_count
        first = self._first_at_or_above(log_min, last)
        return QueueRange(max_offset if first is None else first.queue_offset, max_offset)

    def count_behind(self, log_end: int) -> int:
        """Real units at the end of the queue whose records do not lie within the log."""
        count = 0
        for unit in self._units_backwards():
            if unit.is_real:
                if unit.physical_offset + unit.size <= log_end:
                    break
                count += 1
        return count

    def _decode(self, data: bytes, at: int, number: int) -> StoredUnit | None:
        if self.is_batch:
            offset, size, code, _, base, count, _, _ = BATCH_UNIT.unpack_from(data, at)
            return StoredUnit(base, offset, size, code, count) if size or offset else None
        offset, size, code = UNIT.unpack_from(data, at)
        if not (size or offset or code):
            return None
        if code <= EXT_ADDRESS_MAX and self._ext is not None:
            resolved = _ext_tags_code(self._ext, code)
            return StoredUnit(number, offset, size, code if resolved is None else resolved, 1, code)
        return StoredUnit(number, offset, size, code)

    def _last_within(self, log_end: int) -> StoredUnit | None:
        """The last real unit whose record ends within the log."""
        for unit in self._units_backwards():
            if unit.is_real and unit.physical_offset + unit.size <= log_end:
                return unit
        return None

    def _units_backwards(self) -> Iterator[StoredUnit]:
        step = self.unit_size
        for file in reversed(self.run.files):
            # Behind the data is a hole, which need not be read to know that it is empty.
            data_bytes = self.reader.data_end(file) - file.start
            usable = min(file.size // step, -(-data_bytes // step))
            while usable > 0:
                begin = max(usable - _CHUNK_UNITS, 0)
                data = self.reader.read_file(file, begin * step, (usable - begin) * step)
                for at in range((len(without_zero_tail(data)) + step - 1) // step - 1, -1, -1):
                    unit = self._decode(data, at * step, file.start // step + begin + at)
                    if unit is not None:
                        yield unit
                usable = begin

    def _first_at_or_above(self, log_min: int, last: StoredUnit) -> StoredUnit | None:
        """The first real unit whose record is still in the log."""
        if last.physical_offset < log_min:
            return None
        for unit in self.units_between(self._file_before(log_min), self.run.end // self.unit_size):
            if unit.is_real and unit.physical_offset >= log_min:
                return unit
        return None

    def _file_before(self, log_min: int) -> int:
        """Where to start looking: the last file whose first unit is a real one below ``log_min``."""
        start = 0
        for file in self.run.files:
            head = self.unit_at(file.start // self.unit_size)
            if head is None or not head.is_real or head.physical_offset >= log_min:
                break
            start = file.start // self.unit_size
        return start

    def _end_of_filler(self) -> int:
        end = self.run.start // self.unit_size
        for unit in self.units():
            if unit.is_filler:
                end = unit.queue_offset + 1
        return end


def find_queues(files: OpenFiles, store_layout: StoreLayout) -> tuple[list[StoredQueue], list[str]]:
    """All queues, by topic and id, and the paths in between that do not belong there."""
    filesystem = files.filesystem
    queues: list[StoredQueue] = []
    foreign: list[str] = []
    for folder, is_batch in ((store_layout.consume_queue, False), (store_layout.batch_consume_queue, True)):
        for topic in filesystem.list_directory(folder):
            topic_folder = os.path.join(folder, topic)
            if not filesystem.is_directory(topic_folder):
                foreign.append(topic_folder)
                continue
            found, strangers = _queues_in(files, store_layout, topic, topic_folder, is_batch)
            queues += found
            foreign += strangers
    queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    return queues, foreign


def find_queue(files: OpenFiles, store_layout: StoreLayout, place: QueueId) -> StoredQueue | None:
    """One queue without looking at all others; None if it has no folder."""
    topic, queue_id = place
    if not is_stored_topic(topic) or not 0 <= queue_id < 2**31:
        return None
    for kind in (layout.BATCH_CONSUME_QUEUE, layout.CONSUME_QUEUE):
        folder = store_layout.path(kind, topic, str(queue_id))
        if files.filesystem.is_directory(folder):
            return _queue_in(files, store_layout, topic, folder, kind == layout.BATCH_CONSUME_QUEUE)
    return None


def find_topic_queues(
    files: OpenFiles, store_layout: StoreLayout, topic: str, kind: str = layout.CONSUME_QUEUE
) -> list[StoredQueue]:
    """The queues of one topic: what a reader needs who does not want to list a hundred thousand folders."""
    folder = store_layout.path(kind, layout.checked_topic(topic))
    found, _ = _queues_in(files, store_layout, topic, folder, kind == layout.BATCH_CONSUME_QUEUE)
    return sorted(found, key=lambda queue: queue.queue_id)


def _queues_in(
    files: OpenFiles, store_layout: StoreLayout, topic: str, topic_folder: str, is_batch: bool
) -> tuple[list[StoredQueue], list[str]]:
    filesystem = files.filesystem
    queues: list[StoredQueue] = []
    foreign: list[str] = []
    for name in filesystem.list_directory(topic_folder):
        queue_folder = os.path.join(topic_folder, name)
        if not (filesystem.is_directory(queue_folder) and name.isascii() and name.isdigit()):
            foreign.append(queue_folder)
            continue
        queues.append(_queue_in(files, store_layout, topic, queue_folder, is_batch))
    return queues, foreign


def _queue_in(files: OpenFiles, store_layout: StoreLayout, topic: str, folder: str, is_batch: bool) -> StoredQueue:
    filesystem, name = files.filesystem, os.path.basename(folder)
    ext_run = find_run(filesystem, [store_layout.path(layout.CONSUME_QUEUE_EXT, topic, name)])
    return StoredQueue(
        topic,
        int(name),
        RunReader(files, find_run(filesystem, [folder])),
        folder=folder,
        is_batch=is_batch,
        ext=RunReader(files, ext_run) if ext_run.files and not is_batch else None,
    )


def _ext_tags_code(ext: RunReader, address: int) -> int | None:
    head = ext.read(address + _EXT_BASE, EXT_HEAD.size)
    if len(head) < EXT_HEAD.size:
        return None
    size, tags_code, _, bitmap = EXT_HEAD.unpack(head)
    return int(tags_code) if size >= EXT_HEAD.size and size == EXT_HEAD.size + bitmap else None
