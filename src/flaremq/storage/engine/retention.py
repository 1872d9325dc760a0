"""What to delete: whole log files, oldest first, never the last; queues and index follow. Who reads a file reads on.

A file goes when it is expired and the hour has come (or space is short, or somebody asked), or at once when the disk
is nearly full. Files that somebody reads from outside stay while the lease runs (``leases``), unless the disk is nearly
full. A file's age is the store time of the first record *after* it, so copies and restores of files, which
change modification times, do not matter. Deletion is spread: a pause between files, a bound per round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from flaremq.errors import FlareMQError, StoreIOError
from flaremq.storage.engine.leases import Leases
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.queue.consume_queue import ConsumeQueue
from flaremq.storage.runtime.health import RunningFlag

_log = logging.getLogger(__name__)
_MANUAL_ROUNDS = 20  # a request by hand is good for this many rounds, as in the original


class Retention:
    """Disk checks and deletion. Any thread."""

    def __init__(
        self,
        parts: StoreParts,
        may_delete_before: Callable[[int], bool],
        dispatch_lock: threading.Lock,
        *,
        pause: Callable[[float], bool],
    ) -> None:
        self._filesystem = parts.filesystem
        self._clock = parts.clock
        self._options = parts.options
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._deleted = parts.deleted
        self._health = parts.health
        self._queue_root = parts.layout.path(".")
        self._leases = Leases(parts.filesystem, parts.layout.leases)
        self._may_delete_before = may_delete_before  # asked with the new log start; may take a checkpoint
        self._dispatch_lock = dispatch_lock  # held while a queue or the index loses files
        self._pause = pause  # True: the store is closing, the rest waits for another day
        self._lock = threading.RLock()  # one deletion at a time: the cleaning thread and a caller may meet
        self._manual_rounds = 0
        self._cleaned_to = parts.log.min_offset
        self.deleted_count = 0  # log files, since the store was opened
        self.failed_count = 0  # rounds that ended early

    def request(self) -> None:
        """Delete expired files in the next rounds, whatever the hour."""
        self._manual_rounds = _MANUAL_ROUNDS

    def run_round(self, *, space_wanted: bool = False) -> int:
        """One round: check the disk, delete what is due; the number of log files deleted.

        ``space_wanted``: the disk had no room for something, so expired files go whatever the hour.
        """
        with self._lock:
            try:
                return self._run_round(space_wanted)
            except Exception:
                self.failed_count += 1
                raise

    def _run_round(self, space_wanted: bool) -> int:
        space_short, at_once = self.check_disk()
        manual = self._manual_rounds > 0
        self._manual_rounds = max(0, self._manual_rounds - 1)
        deleted = 0
        if space_short or space_wanted or manual or self._is_delete_hour():
            deleted = self._delete_expired(at_once=at_once, to_make_room=at_once)
        self.follow_log()
        if deleted:
            self.check_disk()  # what was freed serves at once
        return deleted

    def _is_delete_hour(self) -> bool:
        return time.localtime(self._clock.now_ms() / 1000).tm_hour in self._options.delete_hours

    def check_disk(self) -> tuple[bool, bool]:
        """(clean expired files now, clean without regard to age); sets or clears the disk-full flags."""
        options = self._options
        ratios, queue_ratio = self.used_ratios()
        self._log.files.full_folders = frozenset(
            folder for folder, used in ratios.items() if used > options.disk_space_clean_forcibly_ratio / 100
        )
        log_short, log_at_once = self._judge(min(ratios.values()), RunningFlag.DISK_FULL, "commit log")
        queue_short, queue_at_once = self._judge(queue_ratio, RunningFlag.LOGIC_DISK_FULL, "queues")
        return log_short or queue_short, (log_at_once or queue_at_once) and options.clean_file_forcibly_enable

    def used_ratios(self) -> tuple[dict[str, float], float]:
        """Used share of the disk under each log folder, and under the queues."""
        return {folder: self._used(folder) for folder in self._log.files.folders}, self._used(self._queue_root)

    def _used(self, path: str) -> float:
        """Used share of the partition, rounded up to a percent; 0 for a folder that does not exist yet."""
        try:
            return -(-self._filesystem.used_ratio(path) * 100 // 1) / 100
        except FlareMQError:
            return 0.0

    def _judge(self, used: float, flag: RunningFlag, what: str) -> tuple[bool, bool]:
        """(short of space, so short that age does not count).

        Puts are refused above the warning level and taken again only where nothing is deleted by force any more:
        between the two, each freed file would be followed by a few puts and the next refusal.
        """
        options = self._options
        warning, forcibly = options.disk_space_warning_level_ratio / 100, options.disk_space_clean_forcibly_ratio / 100
        was_full = bool(self._health.flags & flag)
        if used > warning or (was_full and used > forcibly):
            self._health.set(flag, f"the disk of the {what} is {used:.0%} full")
            if not was_full:
                _log.warning("the disk of the %s is %.0f %% full: messages are refused", what, used * 100)
            return True, True
        if was_full:
            self._health.clear(flag)
            _log.warning("the disk of the %s is %.0f %% full: messages are taken again", what, used * 100)
        if used > forcibly:
            return True, True
        return used > options.disk_max_used_space_ratio / 100, False

    def delete_expired(self, *, at_once: bool = False) -> int:
        """Delete expired log files (all but the last when ``at_once``) up to the bound per round."""
        with self._lock:
            return self._delete_expired(at_once=at_once, to_make_room=False)

    def _delete_expired(self, *, at_once: bool, to_make_room: bool) -> int:
        """``to_make_room``: without pauses, and no file more than needed to be below the level of forced deletion."""
        deleted = 0
        files = self._log.files
        leased = None if at_once else self._leases.lowest(self._clock.now_ms())
        while len(files.files) > 1 and deleted < self._options.delete_file_batch_max:
            oldest, following = files.files[0], files.files[1]
            if not at_once and not self._is_expired(following):
                break
            if leased is not None and following.start > leased:
                _log.info("%s is being read from outside (a lease says so) and stays for now", oldest.path)
                break
            if following.start > self._log.flushed_offset or not self._may_delete_before(following.start):
                break
            if deleted and to_make_room:
                if not self.check_disk()[1]:
                    break
            elif deleted and self._pause(self._options.delete_commit_log_files_interval / 1000):
                break
            files.drop_first()
            _log.info("deleted %s", oldest.path)
            self.deleted_count += 1
            deleted += 1
        if deleted:
            self.follow_log()
        return deleted

    def _is_expired(self, following: MappedFile) -> bool:
        """Whether everything before ``following`` is older than the retention time."""
        newest = self._log.store_timestamp(following.start)
        if newest is None:
            newest = self._filesystem.modified_ms(following.path)
        return newest + self._options.file_reserved_time * 3_600_000 <= self._clock.now_ms()

    def follow_log(self) -> None:
        """Queues, index and deletions of topics drop what points before the log's start."""
        log_min = self._log.min_offset
        if log_min <= self._cleaned_to:
            return
        for queue in self._queues.all():
            with self._dispatch_lock:
                dropped = queue.drop_files_before(log_min)
                queue.correct_min_offset(log_min)
                if isinstance(queue, ConsumeQueue):
                    dropped += self._drop_ext_files(queue)
            if dropped and self._pause(self._options.delete_consume_queue_files_interval / 1000):
                return
        with self._dispatch_lock:
            if self._index is not None:
                self._index.drop_before(log_min)
            try:
                self._deleted.forget_before(log_min)
            except StoreIOError as error:
                _log.warning("deletions of topics that hide nothing any more could not be dropped: %s", error)
        self._cleaned_to = log_min

    def _drop_ext_files(self, queue: ConsumeQueue) -> int:
        """Delete leading ext files that no unit of the queue points to any more; the number deleted."""
        ext = self._queues.ext.get((queue.topic, queue.queue_id))
        if ext is None or len(ext.files.starts) < 2:
            return 0
        return ext.drop_files_before(queue.first_ext_address())
