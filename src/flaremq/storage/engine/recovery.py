"""Recovery: from whatever is on disk to a log with a sure end, and queues and index that agree with it.

The log decides. Three questions, in order:

1. *Where to start?* After a clean stop at the recorded end. After a crash of ours at ``dispatched`` of
   flaremq.offsets: everything before it is durable in all three views. For a store last used by RocketMQ, by
   RocketMQ's own rule (checkpoint times choose a file).
2. *Where does the log end?* Records are walked and checked from there. At something that is no record:
   - below ``log_durable`` (or if that is unknown) a valid record further on means the bytes between are *damaged*:
     they are reported and stepped over, nothing behind them is lost;
   - above it, this is the torn tail of a power cut and the log ends here, a prefix of what was appended. If whole
     records follow, the tail is copied aside before it is cut.
   The cut is made durable: zeros on disk, later files removed, newest first.
   Where copies elsewhere confirm the log (``hold_unconfirmed``), what lies behind the confirm offset is part of the log
   but is not dispatched: nobody reads it before it is confirmed again. How far it was confirmed is what the checkpoint
   says, and what queues showed.
3. *Do the views agree?* Queues are cut back to units of records before the start, the index to its state there; both
   are then completed by the same dispatch that runs in normal service. Queues of a topic that was deleted at or behind
   the start are built anew: what stands in them may be of the topic's earlier life.

Running it again on its own result changes nothing, and a crash anywhere inside it is just another crash.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field
from itertools import islice

from flaremq.core.record import nonzero_end
from flaremq.errors import CorruptionError, NotFoundError
from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.record.codec import HEADER, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN, store_timestamp_at
from flaremq.storage.engine.index_recovery import IndexRecovery
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.files.checkpoint import is_our_abort, parse_hints
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.log.commit_log import NO_GATE, save_tail
from flaremq.storage.log.resync import next_record
from flaremq.storage.log.walk import DamagedRange
from flaremq.storage.queue.batch_consume_queue import BatchConsumeQueue, BatchUnit
from flaremq.storage.queue.consume_queue import FILLER_SIZE, UNIT, UNIT_SIZE, ConsumeQueue
from flaremq.storage.queue.table import QueueId

_log = logging.getLogger(__name__)
_REWRITE_CHUNK = 1 << 20


@dataclass(slots=True)
class RecoveryReport:
    """What opening the store found and did."""

    closed_cleanly: bool = True
    started_at: int = 0
    log_end: int = 0
    truncated_bytes: int = 0
    saved_tail: str | None = None
    damaged: list[DamagedRange] = field(default_factory=list)
    rebuilt: bool = False
    last_timestamp: int = 0
    seconds: float = 0.0  # it took

    def __str__(self) -> str:
        """What recovery did after a crash, for the log."""
        damage = f"{len(self.damaged)} damaged range(s)" if self.damaged else "no damage"
        cut = f"{self.truncated_bytes} bytes behind it cut off" if self.truncated_bytes else "nothing cut off"
        kept = f" (a copy is in {self.saved_tail})" if self.saved_tail else ""
        return f"recovery read the log from {self.started_at} to its end at {self.log_end}: {damage}, {cut}{kept}"


class Recovery:
    """One pass over one store, before anything else runs."""

    def __init__(self, parts: StoreParts, *, hold_unconfirmed: bool = False) -> None:
        self._gate = 0 if hold_unconfirmed else NO_GATE  # nothing behind it is dispatched
        self._held_at: int | None = None  # dispatch stopped there
        self._closed_cleanly = parts.closed_cleanly
        self._filesystem = parts.filesystem
        self._layout = parts.layout
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._dispatcher = parts.dispatcher
        self._offsets = parts.offsets.offsets
        self._offsets_known = parts.offsets.is_known
        self._checkpoint = parts.checkpoint
        self._deleted = parts.deleted
        self._is_replica = parts.options.broker_role == "SLAVE"
        self._index_recovery = IndexRecovery(parts)

    def run(self) -> RecoveryReport:
        closed_cleanly = self._closed_cleanly
        report = RecoveryReport(closed_cleanly=closed_cleanly)
        files = self._log.files.files
        if not files:
            self._refuse_orphans()
            self._deleted.settle(log_min=0, log_end=0)
            self._log.begin(0, 0)
            self._log.confirm_offset = self._gate
            return report
        self._offsets_known = self._offsets_known and (
            files[0].start <= self._offsets.dispatched <= files[-1].end
            and self._offsets.dispatched <= self._offsets.log_durable <= files[-1].end
        )
        if self._gate != NO_GATE:
            shown = self._offsets.dispatched if self._offsets_known else 0
            self._gate = max(self._checkpoint.confirm_phy_offset, shown)
        if self._is_replica:  # nothing else runs: no lock is needed
            self._dispatcher.on_new_life = self._dispatcher.begin_anew
        start = self._prepare_clean(report) if closed_cleanly else self._prepare_abnormal()
        report.started_at = start
        self._dispatcher.position = start
        self._gate = max(self._gate, start)
        end = self._find_end(report)
        self._cut_log(end, report)
        if not closed_cleanly:
            self._sync_log()
        if end < start:  # the log is shorter than what was dispatched: units point into nothing
            for queue in self._queues.simple.values():
                self._drop_unproven_units(queue, end)
        self._finish_deletions(end)
        for any_queue in self._queues.all():
            any_queue.correct_min_offset(self._log.min_offset)
        report.log_end = end
        self._dispatcher.position = end
        self._dispatcher.index_from = 0
        self._dispatcher.on_new_life = None
        self._dispatcher.last_timestamp = report.last_timestamp
        self._log.begin(end, report.last_timestamp)
        if self._held_at is not None:
            self._dispatcher.position = min(self._held_at, end)
            self._dispatcher.last_timestamp = self._timestamp_before(self._dispatcher.position)
        if self._gate != NO_GATE:
            self._log.confirm_offset = min(self._gate, end)
        return report

    def _refuse_orphans(self) -> None:
        """Queues or index without a log: a wrong mount or path far more likely than an empty store."""
        for queue in self._queues.all():
            if queue.files.starts:
                raise CorruptionError(
                    "the store has consume queues but no commit log: wrong path or missing mount? "
                    "Remove the consumequeue and index folders to start an empty store",
                    path=queue.files.folder,
                )

    # Where to start

    def _prepare_clean(self, report: RecoveryReport) -> int:
        hints = self._queue_hints(log_end=self._offsets.log_end)
        for key, queue in self._queues.simple.items():
            queue.files.drop_behind_gap(None)
            self._settle_clean_queue(queue, hints.get(key) if hints else None)
        for batch in self._queues.batch.values():
            batch.recover(self._log.files.files[-1].end)
        first = self._log.files.files[0].start
        reached = max(self._queues.max_physical_offset, first)
        if self._offsets_known and self._offsets.log_end >= 0:
            reached = max(reached, self._offsets.log_end)
            if self._offsets.dispatched < self._offsets.log_end:
                reached = self._offsets.dispatched  # the rest waited for copies
        queues_complete = bool(self._queues.all()) or reached == first
        if hints is not None:
            queues_complete = all(
                key in self._queues.simple and self._queues.simple[key].end >= hint for key, hint in hints.items()
            )
        index_complete = self._index is None or bool(self._index.files) or reached == first
        if self._offsets_known and self._index is not None and self._offsets.log_end >= 0:
            wanted = self._offsets.index_name
            index_complete = wanted == 0 or any(int(file.name) >= wanted for file in self._index.files)
        if queues_complete and index_complete:
            self._dispatcher.index_from = self._index_recovery.start(reached)
            start = min(self._drop_earlier_lives(reached, hints), self._dispatcher.index_from)
            return self._record_start(start)
        report.rebuilt = True
        if index_complete:
            self._dispatcher.index_from = self._index_recovery.start(reached)
        elif self._index is not None:
            self._index.drop_all()
        return first

    def _queue_hints(self, *, log_end: int | None = None) -> dict[tuple[str, int], int] | None:
        """Queue ends as of our last checkpoint; None if there are none.

        They are written after the units they count were synced and before flaremq.offsets moves, so they may be
        newer than that but never older. ``log_end`` asks for those of a clean stop at that offset.
        """
        if not self._offsets_known:
            return None
        try:
            file = self._filesystem.open(self._layout.queue_hints, read_only=True)
        except NotFoundError:
            return None
        try:
            hints = parse_hints(file.read_at(0, file.size()))
            if (log_end is not None and hints["logEnd"] != log_end) or hints["dispatched"] < self._offsets.dispatched:
                return None
            return {(topic, queue_id): end for topic, queue_id, end in hints["queues"]}
        except (ValueError, KeyError, TypeError):
            return None  # damaged: the units are then held against the log one by one
        finally:
            file.close()

    def _settle_clean_queue(self, queue: ConsumeQueue, hint: int | None) -> None:
        if hint is not None and self._is_end(queue, hint):
            queue.end = hint
        else:
            queue.end = queue.guess_end()
            if not self._is_end(queue, queue.end):
                queue.end = queue.scan_end()
                self._drop_unproven_units(queue, self._log.files.files[-1].end)
        last = queue.unit(queue.end - 1)
        queue.max_physical_offset = last[0] + last[1] if last else 0

    def _is_end(self, queue: ConsumeQueue, end: int) -> bool:
        if end <= queue.first_offset:
            return False
        after = queue.files.read(end * UNIT_SIZE, UNIT_SIZE)
        if after.strip(b"\0"):
            return False
        queue.end = end
        unit = queue.unit(end - 1)
        return unit is not None and self._proves(queue, end - 1, unit)

    def _prepare_abnormal(self) -> int:
        if self._offsets_known:
            start = self._offsets.dispatched
            if not self._last_writer_was_us():
                start = self._record_start(start)
        else:
            start = self._start_by_time()
        hints = self._queue_hints()
        # The start is a checkpoint. One from before the deletion, and only such a one, is not behind its offset: then
        # everything since the deletion is dispatched again, and no unit found here is needed.
        self._queues.remove({key for key in self._queues.places if self._deleted.was_deleted_since(key[0], start)})
        for key, queue in self._queues.simple.items():
            durable = None if hints is None else hints.get(key, 0)
            # Of a deleted topic the checkpoint may mean files that were being removed; what is missing is built anew.
            kept = 0 if durable is not None and self._deleted.end_of(queue.topic) else durable
            queue.files.drop_behind_gap(None if kept is None else kept * UNIT_SIZE)
            queue.end = queue.scan_end()
            self._note_shown(queue)
            if durable is None:
                self._drop_unproven_units(queue, start)
            elif durable < queue.first_offset:
                queue.clear()  # its first file is gone, so none of this was ever durable
            else:
                queue.truncate(min(durable, queue.end))  # what came later is dispatched again
        for batch in self._queues.batch.values():
            batch.recover(start)
        if self._index is not None:
            if self._offsets_known:
                start = self._index_recovery.restore(start)
            else:
                self._index_recovery.cut(start)
        first_needed = self._drop_earlier_lives(start, hints)
        return start if first_needed == start else self._record_start(first_needed)

    def _note_shown(self, queue: ConsumeQueue) -> None:
        """A queue shows only what is confirmed: so was its last record, if the unit found on disk is whole."""
        unit = queue.unit(queue.end - 1) if self._gate != NO_GATE else None
        if unit is None or unit[0] < self._log.files.files[0].start:
            return  # a record that is gone proves nothing: this may be half a filler
        if self._proves(queue, queue.end - 1, unit):
            self._gate = max(self._gate, unit[0] + unit[1])

    def _record_start(self, offset: int) -> int:
        """``offset`` if a record, a filler or nothing at all starts there; else the start of its file."""
        file = self._log.files.find(offset)
        if file is None:
            return offset  # the end of the last file
        verdict = check_record(file.buffer, offset - file.start, physical_offset=offset)
        good = (CheckReason.OK, CheckReason.BLANK, CheckReason.EMPTY, CheckReason.TRUNCATED)
        return offset if verdict.reason in good else file.start

    def _start_by_time(self) -> int:
        """RocketMQ's rule: the newest file whose first record is older than the checkpoint's recovery time."""
        limit = self._checkpoint.recovery_time_ms
        for file in reversed(self._log.files.files):
            fields = HEADER.unpack_from(file.buffer, 0)
            if fields[1] not in (MAGIC_V1, MAGIC_V2):
                continue
            at = store_timestamp_at(fields[7])
            timestamp = int.from_bytes(file.buffer[at : at + 8], "big", signed=True)
            if 0 < timestamp <= limit:
                return file.start
        return self._log.files.files[0].start

    # Where the log ends

    def _find_end(self, report: RecoveryReport) -> int:
        dispatcher = self._dispatcher
        files_end = self._log.files.files[-1].end
        # Behind a RocketMQ that used the store after us nothing says what was durable: keep whatever is a record.
        ours = self._offsets_known and not report.closed_cleanly and self._last_writer_was_us()
        durable = self._offsets.log_durable if ours else files_end
        while True:
            strict = dispatcher.position >= durable
            target = files_end if strict else min(durable, files_end)
            if self._is_held(dispatcher.position):
                walk = dispatcher.run(target, check=True, strict=strict)
            else:
                walk = dispatcher.run(min(target, self._gate), check=True, strict=strict)
                if self._is_held(dispatcher.position) and target > self._gate:
                    report.last_timestamp = walk.last_timestamp or report.last_timestamp
                    continue
            report.last_timestamp = walk.last_timestamp or report.last_timestamp
            if walk.reason is None:
                if strict or dispatcher.position >= files_end:
                    break
                continue
            if dispatcher.position >= durable and not strict:
                continue  # walked past the durable point inside a record's reach: look again, strictly
            position = dispatcher.position
            if self._is_known_end(position, report):
                break
            following = next_record(self._log.files, position)
            if following is None:
                if self._offsets_known and position < self._offsets.log_durable:
                    # Once durable, now unreadable, and nothing behind it: no torn tail, and worth keeping a copy.
                    report.damaged.append(DamagedRange(position, self._offsets.log_durable, walk.reason.value))
                    report.saved_tail = self._save_tail(position)
                break
            if strict:
                report.saved_tail = self._save_tail(position)
                break
            report.damaged.append(DamagedRange(position, following, walk.reason.value))
            if dispatcher.is_silent:
                dispatcher.position = following  # who dispatches it comes upon it again
            else:
                dispatcher.step_over(following, walk.reason.value)
        dispatcher.is_silent = False
        if not report.last_timestamp:
            report.last_timestamp = self._timestamp_before(dispatcher.position)
        return dispatcher.position

    def _is_held(self, position: int) -> bool:
        """Whether dispatch has come to the gate: to it, or to a record or filler across it."""
        if self._held_at is None:
            header = self._log.header(position)
            size = RECORD_SIZE_MIN if header is None else header[0]
            if position + size <= self._gate:
                return False
            self._held_at = position
            self._dispatcher.is_silent = True
        return True

    def _last_writer_was_us(self) -> bool:
        return is_our_abort(self._filesystem, self._layout.abort, self._offsets)

    def _is_known_end(self, position: int, report: RecoveryReport) -> bool:
        """We closed the store here ourselves: what follows are the zeros it was created with."""
        return report.closed_cleanly and self._offsets_known and self._offsets.log_end == position

    def _save_tail(self, start: int) -> str | None:
        end = start
        for file in self._log.files.files:
            if file.end > start:
                data_end = file.start + min(file.file().data_end(), file.size)
                end = max(end, data_end)
        path = save_tail(self._log, self._filesystem, self._layout.saved_tail, start, end)
        _log.warning(
            "log bytes [%d, %d) were never confirmed durable and are cut off; a copy is in %s",
            start,
            end,
            path,
        )
        return path

    def _cut_log(self, end: int, report: RecoveryReport) -> None:
        if self._is_known_end(end, report):
            self._log.files.truncate(end, erase_tail=False)
            return
        leftover = end
        for file in self._log.files.files:
            if file.end > end:
                at = max(end - file.start, 0)
                data_end = min(file.file().data_end(), file.size)
                written_end = nonzero_end(file.buffer, at, data_end)
                if written_end > at:
                    leftover = file.start + written_end
        report.truncated_bytes = leftover - end
        self._log.files.truncate(end, erase_tail=leftover > end)  # else the tail was just seen to be zeros

    def _sync_log(self) -> None:
        """What a killed process left in the page cache becomes durable before anything relies on it.

        Bytes that were never confirmed are written again first: if a sync of them failed, the kernel calls their
        pages clean and would not write them.
        """
        durable = self._offsets.log_durable if self._offsets_known else 0
        for file in self._log.files.files:
            if file.end > durable:
                if self._offsets_known:
                    rewrite(file, max(durable - file.start, 0))
                file.file().sync()
        for folder in self._log.files.folders:
            self._filesystem.sync_directory(folder)
        for queue in self._queues.all():
            queue.files.doubt_names()

    def _timestamp_before(self, end: int) -> int:
        """Store time of the last record before ``end``, found through the queues; 0 if there is none."""
        newest = 0
        for queue in self._queues.simple.values():
            unit = queue.unit(queue.end - 1)
            if unit is not None and unit[0] + unit[1] <= end:
                newest = max(newest, unit[0])
        return self._log.store_timestamp(newest) or 0

    # Do the views agree

    def _proves(self, queue: ConsumeQueue, queue_offset: int, unit: tuple[int, int, int]) -> bool:
        """Whether the record a unit points to says the same; a record retention has taken cannot object."""
        if 0 <= unit[0] < self._log.files.files[0].start:
            return unit[1] > 0
        fields = self._log.header(unit[0])
        return fields is not None and fields[0] == unit[1] and fields[3] == queue.queue_id and fields[5] == queue_offset

    def _drop_unproven_units(self, queue: ConsumeQueue, limit: int) -> None:
        """Cut the queue behind its last unit that points below ``limit`` and agrees with its record."""
        end = queue.end
        block = 1024
        while end > queue.first_offset:
            low = max(end - block, queue.first_offset)
            data = queue.files.read(low * UNIT_SIZE, (end - low) * UNIT_SIZE)
            if len(data) < (end - low) * UNIT_SIZE:  # the block crosses files: go to the boundary first
                low = max(low, queue.files.file_size // UNIT_SIZE * ((end - 1) * UNIT_SIZE // queue.files.file_size))
                data = queue.files.read(low * UNIT_SIZE, (end - low) * UNIT_SIZE)
            units = list(UNIT.iter_unpack(data))
            for number in range(len(units) - 1, -1, -1):
                unit = units[number]
                if unit[1] == FILLER_SIZE:
                    continue  # stands for no record: a queue does not end with it
                if 0 <= unit[0] < limit and unit[1] > 0 and self._proves(queue, low + number, unit):
                    queue.truncate(low + number + 1)
                    return
            end = low
        if queue.end > queue.first_offset > 0:
            queue.clear()  # units, but none that the log knows: the files before these are lost with their names
        else:
            queue.truncate(queue.first_offset)

    def _drop_earlier_lives(self, start: int, hints: dict[QueueId, int] | None) -> int:
        """Remove queues that show records of before their topic's deletion; where to start to have them built anew.

        We leave none behind, but another broker that used the store meanwhile knows nothing of deletions. Queues that
        begin behind the start are removed, too: a replica deletes behind an offset that may be older than the start,
        and what the checkpoint says of such a queue is said of the one before it.
        """
        stale: set[QueueId] = set()
        young: set[QueueId] = set()
        for queue in self._queues.all():
            if self._deleted.end_of(queue.topic):
                key = (queue.topic, queue.queue_id)
                # Of a queue that ends where our checkpoint says the first unit is enough.
                units_max = 1 if hints is not None and hints.get(key) == queue.end else sys.maxsize
                if self._shows_deleted(queue, units_max):
                    stale.add(key)
                elif queue.first_place() >= start:
                    young.add(key)
                elif queue.first_place() < 0 < queue.end or (hints is not None and queue.end < hints.get(key, 0)):
                    stale.add(key)  # files or units are missing
        self._queues.remove(stale | young)
        return min([start, *(self._deleted.end_of(topic) for topic, _ in stale)])

    def _shows_deleted(self, queue: ConsumeQueue | BatchConsumeQueue, units_max: int) -> bool:
        """Whether one of the first units leads to a deleted record; one its record does not confirm proves nothing."""
        if isinstance(queue, ConsumeQueue):
            numbers = range(queue.first_offset, queue.end)
        else:
            numbers = range(queue.first_unit, queue.unit_end)
        for number in islice(numbers, units_max):
            unit = queue.unit(number)
            if unit is not None and self._deleted.hides(queue.topic, unit[0]):
                fields = self._log.header(unit[0])
                queue_offset = unit.base_offset if isinstance(unit, BatchUnit) else number
                if fields is not None and (fields[0], fields[3], fields[5]) == (unit[1], queue.queue_id, queue_offset):
                    return True
        return False

    def _finish_deletions(self, end: int) -> None:
        """Fit the deletions to the log, and remove folders that a deletion left empty."""
        self._deleted.settle(log_min=self._log.min_offset, log_end=end)
        used = {key for table in self._queues.tables for key, queue in table.items() if queue.files.starts}
        self._queues.remove({key for key in self._queues.places - used if self._deleted.end_of(key[0])})


def rewrite(file: MappedFile, position: int) -> None:
    """Write the file's own bytes from ``position`` to its end of data again, so that a sync covers them."""
    while position < file.wrote:
        length = min(_REWRITE_CHUNK, file.wrote - position)
        file.file().write_at(position, bytes(file.buffer[position : position + length]))
        position += length
