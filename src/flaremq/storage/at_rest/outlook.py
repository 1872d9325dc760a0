"""What opening a store would do to it: where the log would end, what would be cut, what dispatched again.

A store that was closed cleanly is taken at its word: the end is looked for in the last file, the queues are
as their files say. After a crash the whole log is walked, and since queues are a function of the log, the
offsets each queue will have come from the records, not from queue files that may lag behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.queues import QueueRange
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.dispatch.record_views import expected_units
from flaremq.storage.files.checkpoint import StoreCheckpoint, is_our_abort
from flaremq.storage.log.walk import DamagedRange, LogTail, RecordBatch
from flaremq.storage.queue.table import QueueId

_ANY_LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)  # only offsets are used here, never due times


@dataclass(frozen=True, slots=True)
class RecoveryOutlook:
    """The state a store would have once opened."""

    closed_cleanly: bool
    log_end: int
    tail: LogTail
    damaged: tuple[DamagedRange, ...]
    redispatch_from: int  # records from here on may lack queue units and index entries
    undispatched_messages: int  # queue units to be written
    surplus_units: int  # queue units behind the end of the log, to be dropped
    empty_log_files: int  # files made ahead of use, to be removed or reused
    queues: dict[QueueId, QueueRange]
    loss: str | None  # what had been on disk and is gone, in a sentence

    @property
    def changes_anything(self) -> bool:
        return not self.closed_cleanly or bool(self.tail.leftover_bytes or self.damaged or self.surplus_units)


def outlook_of(reader: StoreReader, on_progress: Callable[[int], None] | None = None) -> RecoveryOutlook:
    """Look ahead; ``on_progress`` is told the physical offset reached."""
    if reader.closed_cleanly:
        survey = reader.last_file_survey
        tail, damaged = survey.tail, survey.damaged
        from_log: dict[QueueId, QueueRange] = {}
        loss = lost_bytes(reader, tail)
    else:
        tail, damaged, from_log, newest = _walk_queues(reader, on_progress)
        loss = lost_bytes(reader, tail) or lost_since(reader, newest)
    queues: dict[QueueId, QueueRange] = {}
    undispatched = surplus = 0
    for queue in reader.queues:
        log_min = max(reader.log_min, reader.deleted.end_of(queue.topic))
        known = queue.range(log_min=log_min, log_end=tail.physical_offset)
        found = from_log.get((queue.topic, queue.queue_id))
        if found is None and log_min > reader.log_min and known.min_offset == known.max_offset:
            continue  # left from a topic that was deleted: opening the store removes it
        queues[queue.topic, queue.queue_id] = known if found is None else found
        undispatched += 0 if found is None else max(found.max_offset - known.max_offset, 0)
        surplus += queue.count_behind(tail.physical_offset)
    for place, found in from_log.items():
        if place not in queues:
            queues[place] = found
            undispatched += found.max_offset - found.min_offset
    return RecoveryOutlook(
        reader.closed_cleanly,
        tail.physical_offset,
        tail,
        damaged,
        redispatch_start(reader, tail.physical_offset),
        undispatched,
        surplus,
        sum(file.start >= tail.physical_offset for file in reader.log.run.files[1:]),
        dict(sorted(queues.items())),
        loss,
    )


def lost_bytes(reader: StoreReader, tail: LogTail) -> str | None:
    """What our own note says was on disk and is not; None if nothing is missing."""
    end, offsets = tail.physical_offset, reader.offsets
    if offsets is None:
        # A log that lost its last files is shorter than the note says, which therefore does not fit it.
        offsets = None if reader.closed_cleanly else reader.noted_offsets
        if offsets is None or not is_our_abort(reader.filesystem, reader.layout.abort, offsets):
            return None
    known = max(offsets.log_durable, offsets.log_end) if reader.closed_cleanly else offsets.log_durable
    if end + tail.filler_bytes >= known:
        return None
    return f"the log ends at {end}, but {known} bytes were on disk: the last {known - end} are lost"


def lost_since(reader: StoreReader, newest_timestamp: int) -> str | None:
    """What RocketMQ's checkpoint proves after a crash: its time of the log is that of a message that was on disk."""
    checkpoint = reader.checkpoint
    if reader.closed_cleanly or checkpoint is None or not newest_timestamp:
        return None
    claimed = checkpoint["physicMsgTimestamp"]
    if claimed <= newest_timestamp:
        return None
    return (
        f"a message stored at {claimed} had been on disk, the newest that is left was stored at {newest_timestamp}: "
        "the end of the log is lost"
    )


def redispatch_start(reader: StoreReader, log_end: int) -> int:
    """The first record whose derived entries are not known to be on disk."""
    if reader.closed_cleanly:
        offsets = reader.offsets
        if offsets is not None and offsets.dispatched < offsets.log_end == log_end:
            return offsets.dispatched  # the rest waited for copies elsewhere
        return log_end
    if reader.offsets is not None:
        return reader.offsets.dispatched
    # RocketMQ's rule: the last file whose first record is older than what the checkpoint vouches for.
    checkpoint = StoreCheckpoint.load(reader.filesystem, reader.layout.checkpoint)
    for file in reversed(reader.log.run.files):
        if file.start < log_end:
            first = reader.read(file.start)
            if first is not None and 0 < first.store_timestamp <= checkpoint.recovery_time_ms:
                return file.start
    return reader.log_min


def _walk_queues(
    reader: StoreReader, on_progress: Callable[[int], None] | None
) -> tuple[LogTail, tuple[DamagedRange, ...], dict[QueueId, QueueRange], int]:
    newest = 0
    tail = LogTail(reader.log_min, 0, "no file")
    damaged: list[DamagedRange] = []
    bounds: dict[QueueId, tuple[int, int]] = {}
    for item in reader.walk():
        if isinstance(item, RecordBatch):
            newest = max(newest, *item.store_timestamps())
            for place, low, high in _spans(item, reader.deleted):
                known = bounds.get(place, (low, high))
                bounds[place] = (min(known[0], low), max(known[1], high))
            if on_progress is not None:
                on_progress(item.base + item.starts[-1] + item.sizes[-1])
        elif isinstance(item, DamagedRange):
            damaged.append(item)
        elif isinstance(item, LogTail):
            tail = item
    return tail, tuple(damaged), {place: QueueRange(*pair) for place, pair in bounds.items()}, newest


def _spans(batch: RecordBatch, deleted: DeletedTopics) -> Iterator[tuple[QueueId, int, int]]:
    """Queue, first and behind the last queue offset, of each record or of many at once; not of deleted topics."""
    if batch.table is not None and batch.base >= deleted.reach:
        from flaremq.storage.at_rest.record_table import is_read_singly, queue_spans

        if not is_read_singly(batch):
            yield from queue_spans(batch)
            return
    for offset, record in batch.records():
        for unit in expected_units(MessageExt(record), _ANY_LEVELS):
            if deleted.hides(unit.topic, offset):
                continue
            yield (unit.topic, unit.queue_id), unit.queue_offset, unit.queue_offset + unit.message_count
