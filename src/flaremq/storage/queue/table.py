"""All queues of a store, by topic and queue id: loaded from the folders, created by dispatch, read by everyone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.files.handles import HandleCache
from flaremq.storage.files.layout import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE,
    CONSUME_QUEUE_EXT,
    StoreLayout,
    checked_topic,
)
from flaremq.storage.files.queue_files import QueueFiles
from flaremq.storage.queue.batch_consume_queue import BATCH_UNIT_SIZE, BatchConsumeQueue
from flaremq.storage.queue.consume_queue import UNIT_SIZE, ConsumeQueue
from flaremq.storage.queue.consume_queue_ext import ConsumeQueueExt

BATCH_FILE_SIZE = 13_800_000  # bytes: 300,000 units of 46
QueueId = tuple[str, int]  # topic and queue id


class ConsumeQueues:
    """The table of queues. Dispatch (one thread) adds; readers look up without a lock."""

    __slots__ = (
        "_batch_file_size",
        "_ext_file_size",
        "_file_size",
        "_filesystem",
        "_handles",
        "_layout",
        "_read_only",
        "_tail_bytes",
        "batch",
        "ext",
        "simple",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        layout: StoreLayout,
        *,
        file_size: int,
        ext_file_size: int = 50_331_648,
        batch_file_size: int = BATCH_FILE_SIZE,
        read_only: bool = False,
        tail_bytes: int = 0,
    ) -> None:
        self._filesystem = filesystem
        self._layout = layout
        self._tail_bytes = tail_bytes
        self._file_size = -(-file_size // UNIT_SIZE) * UNIT_SIZE  # RocketMQ rounds up to whole units
        self._ext_file_size = ext_file_size
        self._batch_file_size = -(-batch_file_size // BATCH_UNIT_SIZE) * BATCH_UNIT_SIZE
        self._read_only = read_only
        self._handles = HandleCache(filesystem, read_only=read_only)
        self.simple: dict[QueueId, ConsumeQueue] = {}
        self.batch: dict[QueueId, BatchConsumeQueue] = {}
        self.ext: dict[QueueId, ConsumeQueueExt] = {}

    def load(self) -> None:
        """Find every queue folder; folders that are no queue are left alone."""
        for key in self._folders(CONSUME_QUEUE):
            queue = self.simple[key] = ConsumeQueue(
                *key, self._files(CONSUME_QUEUE, key, self._file_size), self._tail_bytes
            )
            queue.files.load()
        for key in self._folders(BATCH_CONSUME_QUEUE):
            size = self._first_length(BATCH_CONSUME_QUEUE, key) or self._batch_file_size
            batch = self.batch[key] = BatchConsumeQueue(*key, self._files(BATCH_CONSUME_QUEUE, key, size))
            batch.files.load()
        for key in self._folders(CONSUME_QUEUE_EXT):
            size = self._first_length(CONSUME_QUEUE_EXT, key) or self._ext_file_size
            ext = self.ext[key] = ConsumeQueueExt(self._files(CONSUME_QUEUE_EXT, key, size))
            ext.files.load()

    def _folders(self, kind: str) -> list[QueueId]:
        root = self._layout.path(kind)
        keys = []
        for topic in self._filesystem.list_directory(root):
            try:
                checked_topic(topic)
            except InvalidArgumentError:
                continue
            keys += [
                (topic, int(name))
                for name in self._filesystem.list_directory(os.path.join(root, topic))
                if name.isascii() and name.isdigit() and str(int(name)) == name and int(name) < 2**31
            ]
        return keys

    def _files(self, kind: str, key: QueueId, file_size: int) -> QueueFiles:
        folder = self._layout.queue_folder(*key, kind=kind)
        return QueueFiles(self._filesystem, self._handles, folder, file_size, read_only=self._read_only)

    def _first_length(self, kind: str, key: QueueId) -> int:
        """Sizes no option tells are read off the first file."""
        folder = self._layout.queue_folder(*key, kind=kind)
        names = self._filesystem.list_directory(folder)
        return self._filesystem.size(os.path.join(folder, names[0])) if names else 0

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | BatchConsumeQueue | None:
        return self.simple.get((topic, queue_id)) or self.batch.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        key = (topic, queue_id)
        queue = self.simple.get(key)
        if queue is None:
            queue = ConsumeQueue(topic, queue_id, self._files(CONSUME_QUEUE, key, self._file_size), self._tail_bytes)
            self.simple[key] = queue  # readers that walk the table walk a copy
        return queue

    def get_or_create_batch(self, topic: str, queue_id: int) -> BatchConsumeQueue:
        key = (topic, queue_id)
        queue = self.batch.get(key)
        if queue is None:
            queue = BatchConsumeQueue(topic, queue_id, self._files(BATCH_CONSUME_QUEUE, key, self._batch_file_size))
            self.batch[key] = queue
        return queue

    def all(self) -> list[ConsumeQueue | BatchConsumeQueue]:
        return [*self.simple.values(), *self.batch.values()]

    @property
    def places(self) -> set[QueueId]:
        """Every topic and queue id with a queue of some kind."""
        return {*self.simple, *self.batch, *self.ext}

    @property
    def tables(self) -> tuple[Mapping[QueueId, ConsumeQueue | BatchConsumeQueue | ConsumeQueueExt], ...]:
        """The queues of each kind."""
        return self.simple, self.batch, self.ext

    @property
    def max_physical_offset(self) -> int:
        return max((queue.max_physical_offset for queue in self.all()), default=0)

    def with_tail(self) -> list[ConsumeQueue]:
        """The queues of which units wait in memory."""
        return [queue for queue in list(self.simple.values()) if queue.has_tail]

    def drain(self) -> None:
        """Write all units that wait in memory to their files; under the dispatch lock."""
        for queue in self.with_tail():
            queue.drain()

    def flush(self) -> None:
        """Make every unit written to the files so far durable."""
        synced: set[str] = set()
        for queue in self.all():
            if queue.files.is_dirty:
                queue.files.flush()
                queue.files.sync_names(synced)

    def remove(self, keys: Collection[QueueId]) -> None:
        """Forget these queues, files and folders included, durably; under the dispatch lock."""
        if not keys:
            return
        gone = [table[key] for table in self.tables for key in sorted(keys) if key in table]
        # New tables, not fewer entries: readers may be walking the old ones.
        self.simple = {key: queue for key, queue in self.simple.items() if key not in keys}
        self.batch = {key: queue for key, queue in self.batch.items() if key not in keys}
        self.ext = {key: queue for key, queue in self.ext.items() if key not in keys}
        for queue in gone:
            if isinstance(queue, ConsumeQueue):
                queue.clear()
            else:
                queue.files.remove_all()
        self._remove_folders(self._remove_folders({queue.files.folder for queue in gone}))

    def _remove_folders(self, folders: set[str]) -> set[str]:
        """Remove folders as far as they are empty, durably; the folders they were in.

        A folder in ``batchconsumequeue`` makes its queue one for batches: none may come back after a power cut.
        """
        above = {os.path.dirname(folder) for folder in folders}
        for folder in sorted(folders):
            if not self._filesystem.list_directory(folder):
                with contextlib.suppress(NotFoundError):
                    self._filesystem.remove_directory(folder)
        for folder in sorted(above):
            with contextlib.suppress(NotFoundError):
                self._filesystem.sync_directory(folder)
        return above

    def close(self) -> None:
        self._handles.close()
