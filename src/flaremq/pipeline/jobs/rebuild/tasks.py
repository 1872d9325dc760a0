"""The rounds of tasks that build a store's views; see jobs/rebuild/job.py."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.store_place import StorePlace
from flaremq.storage.at_rest.indexes import DEFAULT_GEOMETRY, IndexGeometry
from flaremq.storage.at_rest.pieces import LogPiece, chain_pieces, cut_pieces
from flaremq.storage.at_rest.queues import StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.layout import INDEX
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.table import QueueId
from flaremq.storage.rebuild.fill import (
    BuiltIndex,
    BuiltQueue,
    IndexPlan,
    QueueSizes,
    build_index,
    fill_bucket,
    fill_odd_queues,
    read_keys,
    slice_keys,
)
from flaremq.storage.rebuild.spill import Spill, spill_piece
from flaremq.storage.rebuild.swap import ViewSwap


@dataclass(frozen=True, slots=True)
class Built:
    spills: Sequence[Spill]
    queues: list[BuiltQueue]
    indexes: list[BuiltIndex]


class ViewBuilder:
    """The rounds of tasks of one rebuild, into the folders of ``swap``."""

    def __init__(
        self, reader: StoreReader, place: StorePlace, swap: ViewSwap, properties: Mapping[str, str], runner: TaskRunner
    ) -> None:
        options = StoreOptions.from_properties(properties)
        self._reader = reader
        self._place = place
        self._swap = swap
        self._runner = runner
        self.with_index = options.message_index_enable
        self.geometry = _geometry(reader, place)
        simple, batch = (_usual_size(reader.queues, is_batch) for is_batch in (False, True))
        if simple is None or "mappedFileSizeConsumeQueue" in properties:
            simple = options.mapped_file_size_consume_queue
        self.sizes = QueueSizes(simple, batch or options.mapper_file_size_batch_consume_queue)

    def build(self, piece_bytes: int) -> Built:
        buckets = min(2 * self._runner.parallelism, 256)
        pieces = cut_pieces(self._reader, piece_bytes)
        spill = partial(_spill, self._place, folder=self._swap.spills, buckets=buckets, with_index=self.with_index)
        spills = chain_pieces(pieces, self._runner.run([partial(spill, piece) for piece in pieces], "log"), spill)
        return Built(spills, *self._second_round(spills, buckets))

    def _second_round(self, spills: list[Spill], buckets: int) -> tuple[list[BuiltQueue], list[BuiltIndex]]:
        known = {(queue.topic, queue.queue_id) for queue in self._reader.queues if queue.is_batch}
        odd = known.union(*(spill.batch_queues for spill in spills))
        damaged = tuple(span for spill in spills for span in spill.damaged)
        folder, slots, entries = os.path.join(self._swap.new, INDEX), self.geometry.slots, self.geometry.entries
        tasks: list[Callable[[], list[BuiltQueue] | BuiltIndex]] = [
            partial(build_index, folder, plan, slots=slots, entries=entries, scratch=self._swap.spills)
            for plan in self._plan_indexes(spills)
        ]
        root, without = self._swap.new, frozenset(odd)
        if odd:
            tasks.append(
                partial(_fill_odd, self._place, root, places=without, batch=frozenset(known), sizes=self.sizes)
            )
        tasks += [
            partial(fill_bucket, root, bucket, tuple(spills), sizes=self.sizes, damaged=damaged, without=without)
            for bucket in range(buckets)
        ]
        results = self._runner.run(tasks, "queues and index")
        indexes = [result for result in results if isinstance(result, BuiltIndex)]
        queues = [queue for result in results if isinstance(result, list) for queue in result]
        return queues, indexes

    def _plan_indexes(self, spills: list[Spill]) -> Iterator[IndexPlan]:
        before: tuple[int, int] | None = None
        name = 0
        old = self._reader.indexes
        for number, slices in enumerate(slice_keys(spills, self.geometry.entries - 1)):
            _, offset, time = memoryview(read_keys(slices[0], 0, 1)).cast("q")
            same = number < len(old) and old[number].header.begin_offset == offset
            wanted = int(old[number].name) if same else _name_of(time)
            name = max(wanted, name + 1)  # names must ascend
            yield IndexPlan(f"{name:017d}", slices, before)
            last = slices[-1]
            _, offset, time = memoryview(read_keys(last, last.count - 1, 1)).cast("q")
            before = (offset, time)


_LAST_NAMED_MS = 253_402_128_000_000  # a day before the year 10000, wherever on earth


def _spill(place: StorePlace, piece: LogPiece, *, folder: str, buckets: int, with_index: bool) -> Spill:
    path = os.path.join(folder, f"{piece.number:08d}")
    with place.open() as reader:
        return spill_piece(reader, piece, path, buckets=buckets, delay_levels=place.delay_levels, with_index=with_index)


def _fill_odd(
    place: StorePlace, root: str, *, places: frozenset[QueueId], batch: frozenset[QueueId], sizes: QueueSizes
) -> list[BuiltQueue]:
    with place.open() as reader:
        return fill_odd_queues(reader, root, places=places, batch=batch, sizes=sizes, delay_levels=place.delay_levels)


def _geometry(reader: StoreReader, place: StorePlace) -> IndexGeometry:
    if place.geometry is not None:
        return place.geometry
    known = [index.geometry for index in reader.indexes if index.geometry is not None]
    return known[-1] if known else DEFAULT_GEOMETRY


def _usual_size(queues: Sequence[StoredQueue], is_batch: bool) -> int | None:
    """The length most queue files of this kind have."""
    sizes = Counter(queue.run.file_size for queue in queues if queue.is_batch is is_batch and queue.run.files)
    return sizes.most_common(1)[0][0] if sizes else None


def _name_of(store_timestamp: int) -> int:
    """An index file is named by the local time of its making; the time of its first record is as good.

    A name has 17 digits, so a damaged time is taken for the first or last that fits.
    """
    store_timestamp = min(max(store_timestamp, 0), _LAST_NAMED_MS)
    moment = datetime.datetime.fromtimestamp(store_timestamp / 1000)
    return int(moment.strftime("%Y%m%d%H%M%S") + f"{store_timestamp % 1000:03d}")
