"""A store directory seen from outside: read-only, at rest, in whatever state it is.

:class:`StoreReader` opens a store that was closed cleanly, killed or damaged, written by us or by RocketMQ,
and never changes a byte, a length, a name or a modification time in it. It takes *shared* locks: several
readers may look at once, a store or a log that a live process holds is refused, and no broker starts on it
meanwhile. It makes no lock file.

Nothing here decides what is wrong with a store (``verify``) or repairs it (``recovery``, ``rescue``); this
module says what is there and where the log ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Self

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.java_json import parse_java_json
from flaremq.message.java_hash import index_hash
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import check_record
from flaremq.storage.at_rest.indexes import IndexGeometry, StoredIndex, find_indexes
from flaremq.storage.at_rest.queues import StoredQueue, find_queue, find_queues
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.files import layout
from flaremq.storage.files.checkpoint import CHECKPOINT, DurableOffsets, OffsetsFile, is_our_abort, unindexed_from
from flaremq.storage.files.claim import StoreClaim
from flaremq.storage.files.directory import RunReader, find_run, read_small_file
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem
from flaremq.storage.files.handles import OpenFiles
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.log.walk import Blank, DamagedRange, LogItem, LogTail, RecordBatch, walk_log
from flaremq.storage.queue.table import QueueId

CHECKPOINT_FIELDS = (
    "physicMsgTimestamp",
    "logicsMsgTimestamp",
    "indexMsgTimestamp",
    "masterFlushedOffset",
    "confirmPhyOffset",
    "logicsPhysicalOffset",
)
# Index times are whole seconds counted from the file's first message: a hit may lie up to this much later.
_INDEX_TIME_SLACK_MS = 999


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """What one walk over the log found."""

    min_offset: int
    end: int
    records: int
    blanks: tuple[Blank, ...]
    damaged: tuple[DamagedRange, ...]
    tail: LogTail


class StoreReader:
    """A store at rest. Not thread-safe; what it lends is valid until ``close``."""

    def __init__(
        self,
        store_layout: StoreLayout,
        *,
        filesystem: FileSystem,
        index_geometry: IndexGeometry | None = None,
        claim: StoreClaim | None = None,
    ) -> None:
        self.layout = store_layout
        self.filesystem = filesystem
        self.files = OpenFiles(filesystem)
        self.log = RunReader(self.files, find_run(filesystem, store_layout.commit_log_paths))
        self._index_geometry = index_geometry
        self._claim = claim

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        commit_log_paths: Sequence[str] = (),
        index_geometry: IndexGeometry | None = None,
        filesystem: FileSystem | None = None,
        lock: bool = True,
    ) -> Self:
        """Open the store at ``path``; ``lock=False`` is for the process that holds it itself."""
        filesystem = filesystem or LocalFileSystem()
        root = os.path.abspath(os.fspath(path))
        if not filesystem.exists(root):
            raise NotFoundError(f"{root} does not exist")
        if not filesystem.is_directory(root):
            raise InvalidArgumentError(f"{root} is a file; give the store's root folder")
        paths = [_below(filesystem, root, path) for path in commit_log_paths] or find_log_folders(filesystem, root)
        store_layout = StoreLayout(root, paths)
        claim = StoreClaim.to_read(filesystem, store_layout) if lock else None
        try:
            return cls(store_layout, filesystem=filesystem, index_geometry=index_geometry, claim=claim)
        except BaseException:
            if claim is not None:
                claim.release()
            raise

    @cached_property
    def _queues(self) -> tuple[list[StoredQueue], list[str]]:
        return find_queues(self.files, self.layout)

    @property
    def queues(self) -> list[StoredQueue]:
        """All queues, by topic and queue id."""
        return self._queues[0]

    def find_queue(self, place: QueueId) -> StoredQueue | None:
        """One queue without looking at all others; None if it has no folder."""
        return find_queue(self.files, self.layout, place)

    @cached_property
    def _indexes(self) -> tuple[list[StoredIndex], list[str]]:
        return find_indexes(self.files, self.layout.index, self._index_geometry)

    @property
    def indexes(self) -> list[StoredIndex]:
        """All index files, oldest first."""
        return self._indexes[0]

    @property
    def foreign(self) -> list[str]:
        """Paths inside the log, queue and index folders that no broker put there."""
        runs = [self.log.run, *(queue.run for queue in self.queues)]
        return [path for run in runs for path in run.foreign] + self._queues[1] + self._indexes[1]

    @property
    def closed_cleanly(self) -> bool:
        """Whether the last process removed its crash marker."""
        return not self.filesystem.exists(self.layout.abort)

    @cached_property
    def checkpoint(self) -> dict[str, int] | None:
        """The checkpoint's fields by RocketMQ's names; None if there is no (whole) checkpoint file."""
        data = read_small_file(self.filesystem, self.layout.checkpoint)
        if data is None or len(data) < CHECKPOINT.size:
            return None
        return dict(zip(CHECKPOINT_FIELDS, CHECKPOINT.unpack_from(data), strict=True))

    @cached_property
    def offsets(self) -> DurableOffsets | None:
        """Our own note of what is on disk; None if we never had the store open or it does not fit the log."""
        offsets, run = self.noted_offsets, self.log.run
        if offsets is None or not run.start <= offsets.dispatched <= offsets.log_durable <= run.end:
            return None
        return offsets

    @cached_property
    def noted_offsets(self) -> DurableOffsets | None:
        """The same note whether it fits the log or not."""
        return OffsetsFile.peek(self.filesystem, self.layout.offsets)

    @cached_property
    def unindexed_from(self) -> int | None:
        """From where on keys wait for a start with indexing on; None if it was on."""
        return unindexed_from(self.filesystem, self.layout.queue_hints)

    @cached_property
    def deleted(self) -> DeletedTopics:
        """Which records belong to deleted topics; none if the file that says so cannot be read."""
        return DeletedTopics.peek(self.filesystem, self.layout.deleted_topics)

    @cached_property
    def known_topics(self) -> set[str] | None:
        """The topics of ``config/topics.json``; None if it cannot be read."""
        data = read_small_file(self.filesystem, os.path.join(self.layout.config, "topics.json"))
        try:
            return set(parse_java_json(data or b"")["topicConfigTable"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def walk(
        self,
        start: int | None = None,
        *,
        everything: bool = False,
        odd_alone: bool = False,
    ) -> Iterator[LogItem]:
        """The log in physical order as opening the store would see it; see ``log/walk.py``.

        After a crash, whole records behind a torn one are not part of the log unless they are known to be
        durable; ``everything`` walks over them too.
        """
        durable = None
        offsets = None if everything or self.closed_cleanly else self.offsets
        # Behind a RocketMQ that used the store after us nothing says what was durable.
        if offsets is not None and is_our_abort(self.filesystem, self.layout.abort, offsets):
            durable = offsets.log_durable
        return walk_log(self.log, start, durable=durable, odd_alone=odd_alone)

    @cached_property
    def survey(self) -> LogSurvey:
        """One walk over the whole log."""
        return self._survey_from(None)

    @cached_property
    def last_file_survey(self) -> LogSurvey:
        """A walk over the last file that holds anything: cheap, and enough to know where the log ends."""
        for file in reversed(self.log.run.files):
            if self.log.read_file(file, 0, 8).strip(b"\0"):
                return self._survey_from(file.start)
        return self._survey_from(None)

    @property
    def log_end(self) -> int:
        """Where the log ends."""
        return self.last_file_survey.end

    @property
    def log_min(self) -> int:
        return self.log.run.start

    def records(
        self,
        start: int = 0,
        end: int | None = None,
        *,
        on_damage: Callable[[DamagedRange], None] | None = None,
    ) -> Iterator[tuple[int, memoryview]]:
        """Offset and bytes of every valid record that starts in [start, end); damage is told and stepped
        over."""
        file = self.log.run.file_at(start)
        for item in self.walk(None if file is None else file.start):
            if isinstance(item, DamagedRange) and on_damage is not None and item.end > start:
                on_damage(item)
            if not isinstance(item, RecordBatch):
                continue
            if end is not None and item.base >= end:
                return
            for offset, record in item.records():
                if offset >= start and (end is None or offset < end):
                    yield offset, record

    def read(self, physical_offset: int) -> MessageExt | None:
        """The record that starts here, or None if these bytes are none."""
        head = self.log.read(physical_offset, 4)
        size = int.from_bytes(head, "big", signed=True)
        file = self.log.run.file_at(physical_offset)
        if file is None or not 0 < size <= file.end - physical_offset:
            return None
        data = self.log.read(physical_offset, size)
        check = check_record(data, physical_offset=physical_offset)
        return MessageExt(data) if check.ok else None

    def query(
        self, topic: str, key: str, max_count: int = 32, begin_ms: int = 0, end_ms: int = 2**63 - 1
    ) -> list[MessageExt]:
        """Messages of this topic with this key, the newest ``max_count``, in physical order.

        The index finds them; text and time are compared on the record, so another key with the same hash is
        not returned. What the index does not cover (yet) is searched in the log itself.
        """
        if max_count < 1:
            raise InvalidArgumentError(f"max_count {max_count} must be positive")
        wanted = index_hash(topic, key)
        log_end = self.log_end
        found: dict[int, MessageExt] = {}

        def consider(message: MessageExt | None) -> None:
            if (
                message is not None
                and message.topic == topic
                and (key == message.uniq_key or key in message.keys)
                and begin_ms <= message.store_timestamp <= end_ms
                and not self.deleted.hides(topic, message.physical_offset)
            ):
                found[message.physical_offset] = message

        used = [index for index in self.indexes if index.header.index_count > 1]
        if self._index_geometry is None and any(index.geometry is None for index in used):
            used = []  # slot and entry counts unknown: the log answers too, only slower
        indexed_to = max((index.header.end_offset for index in used), default=-1)
        for offset, record in self.records(max(indexed_to, self.log_min)):
            if offset > indexed_to:
                consider(MessageExt(bytes(record)))
        for index in reversed(used):
            header = index.header
            if header.begin_timestamp > end_ms:
                continue
            # Of a file that ends before it begins (a clock set back, a wrong bit) its range is unknown.
            if len(found) >= max_count or header.begin_timestamp <= header.end_timestamp < begin_ms:
                break
            for entry in index.chain(wanted):
                stored_ms = header.begin_timestamp + 1000 * entry.seconds
                if len(found) >= max_count or stored_ms + _INDEX_TIME_SLACK_MS < begin_ms:
                    break
                if entry.key_hash == wanted and entry.physical_offset < log_end:
                    consider(self.read(entry.physical_offset))
        return [found[offset] for offset in sorted(found)[-max_count:]]

    def close(self) -> None:
        self.files.close()
        if self._claim is not None:
            self._claim.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _survey_from(self, start: int | None) -> LogSurvey:
        records = 0
        blanks: list[Blank] = []
        damaged: list[DamagedRange] = []
        tail = LogTail(self.log_min, 0, "no file")
        for item in self.walk(start):
            if isinstance(item, RecordBatch):
                records += len(item.starts)
            elif isinstance(item, Blank):
                blanks.append(item)
            elif isinstance(item, DamagedRange):
                damaged.append(item)
            else:
                tail = item
        return LogSurvey(self.log_min, tail.physical_offset, records, tuple(blanks), tuple(damaged), tail)


_STORE_SIGNS = (
    layout.CONSUME_QUEUE,
    layout.BATCH_CONSUME_QUEUE,
    layout.INDEX,
    layout.CHECKPOINT,
    layout.ABORT,
    layout.OFFSETS,
)


def find_log_folders(filesystem: FileSystem, root: str) -> list[str]:
    """The folder or folders below ``root`` that hold the commit log.

    Normally ``commitlog``. A log spread over several folders has names of the operator's choice: then each
    folder whose first file starts with a record that names its own position belongs to it.
    """
    usual = os.path.join(root, layout.COMMIT_LOG)
    if filesystem.is_directory(usual):
        return [usual]
    found = [
        folder
        for name in filesystem.list_directory(root)
        if filesystem.is_directory(folder := os.path.join(root, name)) and _holds_log(filesystem, folder)
    ]
    if found:
        return found
    if any(filesystem.exists(os.path.join(root, name)) for name in _STORE_SIGNS):
        return [usual]  # a store that lost its log: worth looking at, and verify says so
    raise InvalidArgumentError(
        f"{root} is not a store: it has no commitlog folder and nothing else a broker makes; "
        f"give the folder named by storePathRootDir"
    )


def _holds_log(filesystem: FileSystem, folder: str) -> bool:
    names = [name for name in filesystem.list_directory(folder) if layout.is_file_name(name)]
    if not names:
        return False
    handle = filesystem.open(os.path.join(folder, names[0]), read_only=True)
    try:
        head = handle.read_at(0, 36)
        return head[4:7] == b"\xda\xa3\x20" and int.from_bytes(head[28:36], "big") == int(names[0])
    finally:
        handle.close()


def _below(filesystem: FileSystem, root: str, path: str) -> str:
    """A log folder as the user named it; a relative name that is not here may be meant below the root."""
    if os.path.isabs(path) or filesystem.is_directory(path):
        return os.path.abspath(path)
    return os.path.join(root, path)
