"""``rebuild``: ConsumeQueue and IndexFile from the CommitLog, in parallel, byte for byte what dispatch writes.

Three rounds of tasks: pieces of the log are walked and set aside what they mean (bulk_spill.py); buckets of queues,
and whole index files, are made from that (bulk_rebuild.py); queues with several messages a record, which need to know
what came before, are made by one task of their own. Between the rounds the driver proves the seams of the pieces and
counts keys. Then the finished folders are moved into place (view_swap.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.rebuild.tasks import Built, ViewBuilder
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.session import AnySession
from flaremq.pipeline.jobs.store_place import open_store, place_of
from flaremq.pipeline.jobs.tasks import Progress
from flaremq.storage.at_rest.pieces import PIECE_BYTES
from flaremq.storage.at_rest.queues import StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.claim import StoreClaim
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, StoreLayout
from flaremq.storage.rebuild.notes import ViewNotes
from flaremq.storage.rebuild.swap import FOLDER, ViewSwap

_LIGHT_PREFIX = "%LMQ%"


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """What was built and where it stands."""

    path: str
    target: str
    log_min: int
    log_end: int
    records: int
    record_bytes: int
    queues: int
    units: int
    index_files: int
    index_entries: int
    damaged: tuple[tuple[int, int], ...]  # log bytes that hold no record
    kept: tuple[str, ...]  # queues of which the log holds nothing, taken over as they were: topic@queue
    earlier_run: str | None  # what happened to a swap that was cut short before: "finished" or "undone"
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "target": self.target,
            "minOffset": self.log_min,
            "maxOffset": self.log_end,
            "records": self.records,
            "recordBytes": self.record_bytes,
            "queues": self.queues,
            "units": self.units,
            "indexFiles": self.index_files,
            "indexEntries": self.index_entries,
            "damaged": [list(span) for span in self.damaged],
            "kept": list(self.kept),
            "earlierRun": self.earlier_run,
            "seconds": round(self.seconds, 3),
        }


def rebuild(
    spark: AnySession | None,
    *,
    path: str,
    out: str | None = None,
    in_place: bool = False,
    properties: Mapping[str, str] | None = None,
    piece_bytes: int = PIECE_BYTES,
    on_progress: Progress | None = None,
) -> RebuildResult:
    """Build the views of the store at ``path`` into the new folder ``out``, or into the store itself.

    Sizes of files are those the store has; where it has none, those of ``properties`` (RocketMQ's option names) or the
    defaults. Without a session the tasks run one after the other in this process.
    """
    if (out is None) != in_place:
        raise InvalidArgumentError("give either out=DIR, a new folder, or in_place=True")
    started = time.monotonic()
    with contextlib.ExitStack() as held:
        if in_place:
            held.enter_context(_exclusively(path, properties))
        reader = held.enter_context(open_store(path, properties, lock=not in_place))
        swap = ViewSwap(reader.layout if out is None else StoreLayout(_new_folder(out)))
        earlier = swap.resolve_earlier()
        # Opened anew: an earlier swap may just have moved its files.
        reader = held.enter_context(open_store(path, properties, lock=False))
        builder = ViewBuilder(
            reader, place_of(reader, properties), swap, properties or {}, TaskRunner(spark, on_progress)
        )
        swap.begin()
        try:
            built = builder.build(piece_bytes)
            kept = _keep_empty_queues(reader, swap.new, built) if in_place else ()
        except BaseException:
            swap.remove()
            raise
        shutil.rmtree(swap.spills)
        swap.swap(_notes(built, kept, builder.with_index))
    spills = built.spills
    return RebuildResult(
        reader.layout.root,
        reader.layout.root if out is None else os.path.abspath(out),
        reader.log_min,
        spills[-1].end,
        sum(spill.records for spill in spills),
        sum(spill.record_bytes for spill in spills),
        len(built.queues),
        sum(queue.end - queue.min_offset for queue in built.queues),
        len(built.indexes),
        sum(index.index_count - 1 for index in built.indexes),
        tuple(span for spill in spills for span in spill.damaged),
        tuple(f"{queue.topic}@{queue.queue_id}" for queue, _ in kept),
        earlier,
        time.monotonic() - started,
    )


@contextlib.contextmanager
def _exclusively(path: str, properties: Mapping[str, str] | None) -> Iterator[None]:
    """Hold the store as a broker would, so that nobody opens it, or reads it, meanwhile."""
    with open_store(path, properties, lock=False) as reader:  # refuses what is no store before a lock file is made
        store_layout = reader.layout
    claim = StoreClaim.to_write(LocalFileSystem(), store_layout)
    try:
        yield
    finally:
        claim.release()


def _new_folder(out: str) -> str:
    if os.path.exists(out) and (not os.path.isdir(out) or set(os.listdir(out)) - {FOLDER}):
        raise InvalidArgumentError(f"{out} exists and is not an empty folder; give a new one")
    os.makedirs(out, exist_ok=True)
    return os.path.abspath(out)


def _keep_empty_queues(reader: StoreReader, target: str, built: Built) -> tuple[tuple[StoredQueue, int], ...]:
    """Take over queues of which the log holds no record any more: their files are all that remembers where they end.

    Without that the next message would get queue offset 0 again. Light queues, which RocketMQ fills besides a
    message's own queue and our dispatch does not, are taken over too.
    """
    known = {(queue.topic, queue.queue_id, queue.is_batch) for queue in built.queues}
    kept: list[tuple[StoredQueue, int]] = []
    for queue in reader.queues:
        if (queue.topic, queue.queue_id, queue.is_batch) in known or reader.deleted.end_of(queue.topic):
            continue
        served = queue.range(log_min=reader.log_min, log_end=built.spills[-1].end)
        if not queue.topic.startswith(_LIGHT_PREFIX) and (
            served.min_offset != served.max_offset or not queue.run.files
        ):
            continue
        kind = BATCH_CONSUME_QUEUE if queue.is_batch else CONSUME_QUEUE
        folder = os.path.join(target, kind, queue.topic, str(queue.queue_id))
        os.makedirs(folder)
        for file in queue.run.files:
            _copy(file.path, os.path.join(folder, os.path.basename(file.path)))
        kept.append((queue, served.max_offset))
    return tuple(kept)


def _copy(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    with open(target, "rb") as file:
        os.fsync(file.fileno())


def _notes(built: Built, kept: tuple[tuple[StoredQueue, int], ...], with_index: bool) -> ViewNotes:
    queues = [(queue.topic, queue.queue_id, queue.end) for queue in built.queues if not queue.is_batch]
    queues += [(queue.topic, queue.queue_id, end) for queue, end in kept if not queue.is_batch]
    index: dict[str, int] | None = None
    if with_index:
        index = {}
        if built.indexes:
            last = built.indexes[-1]
            index = {
                "index_name": int(last.name),
                "index_begin_timestamp": last.begin_timestamp,
                "index_end_timestamp": last.end_timestamp,
                "index_begin_offset": last.begin_offset,
                "index_end_offset": last.end_offset,
                "index_slot_count": last.slot_count,
                "index_count": last.index_count,
            }
    return ViewNotes(built.spills[-1].end, tuple(queues), index)
