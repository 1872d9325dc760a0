"""StoreParts: what an open store consists of, loaded from its directory as found; recovery puts it right.

The directory is claimed before anything is read, and given back last.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from flaremq.clock import Clock
from flaremq.errors import FlareMQError, InvalidArgumentError
from flaremq.message.delay import parse_delay_levels
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.dispatch.dispatcher import Dispatcher
from flaremq.storage.files.allocation import AllocateMappedFileService, TransientStorePool
from flaremq.storage.files.checkpoint import OffsetsFile, StoreCheckpoint, unindexed_from
from flaremq.storage.files.claim import StoreClaim
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.files.mapped_file_queue import MappedFileQueue
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.table import ConsumeQueues
from flaremq.storage.runtime.health import Health
from flaremq.storage.runtime.statistics import StoreStatistics

_log = logging.getLogger(__name__)
_QUEUE_TAIL_BYTES = 1_000  # units of a queue that a broker keeps in memory before it writes them: 50


class StoreParts:
    """The log, its views and their files, shared by everything in this room."""

    def __init__(self, path: str, options: StoreOptions, filesystem: FileSystem, clock: Clock, *, driven: bool) -> None:
        self.path = path
        self.options = options
        self.filesystem = filesystem
        self.clock = clock
        self.layout = StoreLayout(path, options.commit_log_folders(path))
        self.health = Health()
        self.statistics = StoreStatistics()
        self.delay_levels = parse_delay_levels(options.message_delay_level)
        self._closing: list[Callable[[], None]] = []  # from the last to the first
        if filesystem.exists(path) and not filesystem.is_directory(path):
            raise InvalidArgumentError(f"{path} is not a directory")
        filesystem.make_directories(path)
        filesystem.sync_directory(os.path.dirname(path))  # an earlier start may have failed between the two
        self._claim = StoreClaim.to_write(filesystem, self.layout)
        try:
            self._load_log()
            self._load_views(_QUEUE_TAIL_BYTES if driven else 0)
        except BaseException:
            self.close()
            raise

    def _load_log(self) -> None:
        filesystem, options = self.filesystem, self.options
        folders = self.layout.commit_log_paths
        for folder in folders:
            filesystem.make_directories(folder)
            filesystem.sync_directory(os.path.dirname(folder))
        self.closed_cleanly = not filesystem.exists(self.layout.abort)
        files = MappedFileQueue(
            filesystem,
            folders,
            options.mapped_file_size_commit_log,
            read_only_folders=frozenset(options.read_only_commit_log_folders),
            random_access=not options.data_read_ahead_enable,
        )
        files.load()
        pool = None
        if options.transient_store_pool_enable and options.broker_role != "SLAVE":
            pool = TransientStorePool(options.mapped_file_size_commit_log, options.transient_store_pool_size)
        sync_mode = options.flush_disk_type == "SYNC_FLUSH"
        self.allocation = AllocateMappedFileService(
            filesystem,
            files,
            reserve_step=options.reserve_step_commit_log,
            warm_up=options.warm_maped_file_enable,
            warm_sync_pages=options.flush_least_pages_when_warm_maped_file if sync_mode else 0,
        )
        self.log = CommitLog(
            files,
            self.allocation,
            self.clock,
            reserve_step=options.reserve_step_commit_log,
            only_durable_readable=sync_mode and not options.read_un_committed,
            pool=pool,
            prefault=not sync_mode,
        )
        self._closing += [self.log.close, self.allocation.halt]

    def _load_views(self, tail_bytes: int) -> None:
        filesystem, layout, options = self.filesystem, self.layout, self.options
        self.queues = ConsumeQueues(
            filesystem,
            layout,
            file_size=options.mapped_file_size_consume_queue,
            ext_file_size=options.mapped_file_size_consume_queue_ext,
            batch_file_size=options.mapper_file_size_batch_consume_queue,
            tail_bytes=tail_bytes,
        )
        self._closing.append(self.queues.close)
        self.queues.load()
        self.index: IndexService | None = None  # None also while indexing is off
        self.unindexed_from = unindexed_from(filesystem, layout.queue_hints)
        # The first start without indexing still completes what the run before it began: its keys are not lost.
        if options.message_index_enable or (self.unindexed_from is None and filesystem.list_directory(layout.index)):
            self.index = IndexService(
                filesystem,
                self.clock,
                layout.index,
                slots=options.max_hash_slot_num,
                entries=options.max_index_num,
                reserve_step=options.reserve_step_index,
            )
            self._closing.append(self.index.close)
            self.index.load()
        self.deleted = DeletedTopics.load(filesystem, layout.deleted_topics)
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, self.delay_levels, self.deleted)
        self.offsets = OffsetsFile.open(filesystem, layout.offsets, self.path)
        self._closing.append(self.offsets.close)
        self.checkpoint = StoreCheckpoint.load(filesystem, layout.checkpoint)
        self.master_flushed_offset = self.checkpoint.master_flushed_offset  # as a replica's master said; saved with it

    def close(self) -> None:
        """Give back memory, files and the lock; the disk stays as it is."""
        while self._closing:
            close = self._closing.pop()
            try:
                close()
            except FlareMQError:
                _log.exception("while closing %s", self.path)
        self._claim.release()
