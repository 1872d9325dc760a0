"""Tags and keys: counted exactly, however many different ones there are.

A task counts what it sees into small Arrow tables, cuts them by a hash of topic and text into as many buckets as the
job has, and Spark brings equal texts together in one bucket. There they are counted to the end and only totals and
the most frequent leave. No process ever holds more than a bucket or a task's share.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.pipeline.jobs.report.partial import is_application_topic

TAG, KEY = 0, 1
TEXTS_PER_BUCKET = 400_000  # about 80 MB while they are counted
_PENDING_BYTES_MAX = 32 << 20  # counted texts a task keeps before it hands them on
_SCHEMA = pa.schema(
    [("kind", pa.int8()), ("topic", pa.string()), ("text", pa.string()), ("count", pa.int64()), ("bytes", pa.int64())]
)
_WEIGHTS = np.random.default_rng(0x666C617265).integers(1, 2**63, 256, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True, slots=True, order=True)
class TextCount:
    """How often a tag or key occurs in a topic. Sorts by frequency, then by name."""

    rank: int  # minus the count, so that the natural order is "most frequent first"
    topic: str
    text: str
    size_bytes: int

    @property
    def count(self) -> int:
        return -self.rank


@dataclass(slots=True)
class KeyTotals:
    """The keys of a topic."""

    keys: int = 0
    repeated: int = 0  # keys that more than one message has
    surplus: int = 0  # messages beyond the first of each key

    def add(self, other: KeyTotals) -> None:
        self.keys += other.keys
        self.repeated += other.repeated
        self.surplus += other.surplus


@dataclass(slots=True)
class TextTotals:
    """What a bucket, or all of them, come to."""

    tags: Counter[str] = field(default_factory=Counter)  # different tags by topic
    keys: dict[str, KeyTotals] = field(default_factory=dict)
    top_tags: list[TextCount] = field(default_factory=list)
    top_keys: list[TextCount] = field(default_factory=list)

    def add(self, other: TextTotals, top: int) -> None:
        self.tags.update(other.tags)
        for topic, totals in other.keys.items():
            self.keys.setdefault(topic, KeyTotals()).add(totals)
        self.top_tags = heapq.nsmallest(top, self.top_tags + other.top_tags)
        self.top_keys = heapq.nsmallest(top, self.top_keys + other.top_keys)


class TextCounter:
    """Counts of one task."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._tables: list[pa.Table] = []
        self._bytes = 0

    def count(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        """Add a batch; yields (bucket, counts) when enough has come together."""
        rows = _application_rows(batch)
        if rows.num_rows:
            # Tags repeat within any batch; keys hardly do, so they are brought together once, at the end.
            for table in (_counted(_texts(rows, TAG, "tags")), _texts(rows, KEY, "keys")):
                if table.num_rows:
                    self._tables.append(table)
                    self._bytes += table.nbytes
        if self._bytes > _PENDING_BYTES_MAX:
            self._compact()
            if self._bytes > _PENDING_BYTES_MAX // 2:
                yield from self.flush()

    def flush(self) -> Iterator[tuple[int, bytes]]:
        """Everything counted so far, by bucket."""
        self._compact()
        for table in self._tables:
            yield from _by_bucket(table, self._buckets)
        self._tables, self._bytes = [], 0

    def _compact(self) -> None:
        if self._tables:
            self._tables = [_counted(pa.concat_tables(self._tables))]
        self._bytes = sum(table.nbytes for table in self._tables)


def count_bucket(pieces: Iterable[bytes], top: int) -> TextTotals:
    """All pieces of one bucket, counted to the end."""
    tables: list[pa.Table] = []
    size = 0
    for piece in pieces:
        table = pa.ipc.open_stream(piece).read_all()
        tables.append(table)
        size += table.nbytes
        if size > _PENDING_BYTES_MAX and len(tables) > 16:
            tables = [_counted(pa.concat_tables(tables))]
            size = 0
    totals = TextTotals()
    if tables:
        table = _counted(pa.concat_tables(tables))
        tags = table.filter(pc.equal(table["kind"], TAG))
        keys = table.filter(pc.equal(table["kind"], KEY))
        for row in tags.group_by("topic", use_threads=False).aggregate([([], "count_all")]).to_pylist():
            totals.tags[row["topic"]] = row["count_all"]
        totals.top_tags = _top(tags, top)
        repeated = keys.append_column("surplus", pc.subtract(keys["count"], 1))
        repeated = repeated.append_column("repeated", pc.greater(keys["count"], 1).cast(pa.int64()))
        sums = [([], "count_all"), ("repeated", "sum"), ("surplus", "sum")]
        for row in repeated.group_by("topic", use_threads=False).aggregate(sums).to_pylist():
            totals.keys[row["topic"]] = KeyTotals(row["count_all"], row["repeated_sum"], row["surplus_sum"])
        totals.top_keys = _top(keys, top)
    return totals


def bucket_count(messages: int) -> int:
    """How many buckets so many messages need."""
    return max(1, -(-messages // TEXTS_PER_BUCKET))


def text_hashes(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """A hash per text: bytes weighted by place, added up. Places repeat after 256, which is harmless for spreading."""
    count = len(texts)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + count + 1].astype(np.int64)
    if not count or offsets[-1] == offsets[0]:
        return np.zeros(count, np.uint64)
    lengths = np.diff(offsets)
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    places = np.arange(len(data)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    sums = np.concatenate(([np.uint64(0)], np.cumsum((data + np.uint64(1)) * _WEIGHTS[places & 255], dtype=np.uint64)))
    mixed = sums[offsets[1:] - offsets[0]] - sums[offsets[:-1] - offsets[0]]
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    hashes: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(32))
    return hashes


def _application_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    topics = batch.column("topic").dictionary_encode()
    wanted = [is_application_topic(topic) for topic in topics.dictionary.to_pylist()]
    if all(wanted):
        return batch
    return batch.filter(pc.take(pa.array(wanted), topics.indices))


def _texts(rows: pa.RecordBatch, kind: int, name: str) -> pa.Table:
    """(kind, topic, text, count, bytes) of each tag or key; a message may have several keys."""
    topics, texts, sizes = rows.column("topic"), rows.column(name), rows.column("storeSize").cast(pa.int64())
    if kind == KEY and pc.any(pc.match_substring(texts, " ")).as_py():
        words = pc.split_pattern(texts, " ")
        parents = pc.list_parent_indices(words)
        topics, texts, sizes = topics.take(parents), pc.list_flatten(words), sizes.take(parents)
    given = pc.fill_null(pc.not_equal(texts, ""), False)
    ones = pa.array(np.ones(len(texts), np.int64))
    kinds = pa.array(np.full(len(texts), kind, np.int8))
    return pa.Table.from_arrays([kinds, topics, texts, ones, sizes], schema=_SCHEMA).filter(given)


def _counted(table: pa.Table) -> pa.Table:
    """Equal texts of a topic in one row."""
    # On one thread: Spark runs as many tasks as there are cores already.
    grouped = table.group_by(["kind", "topic", "text"], use_threads=False).aggregate(
        [("count", "sum"), ("bytes", "sum")]
    )
    columns = [grouped[name] for name in ("kind", "topic", "text", "count_sum", "bytes_sum")]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _by_bucket(table: pa.Table, buckets: int) -> Iterator[tuple[int, bytes]]:
    if buckets == 1:
        yield 0, _packed(table)
        return
    table = table.combine_chunks()
    for part in table.to_batches():
        # The topic is left out of the hash: texts spread well enough by themselves, and tags are few.
        numbers = (text_hashes(part.column("text")) % np.uint64(buckets)).astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        cuts = np.searchsorted(numbers[order], np.arange(buckets + 1))
        sorted_part = part.take(pa.array(order))
        for bucket in range(buckets):
            if cuts[bucket] < cuts[bucket + 1]:
                piece = sorted_part.slice(cuts[bucket], cuts[bucket + 1] - cuts[bucket])
                yield bucket, _packed(pa.Table.from_batches([piece]))


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _top(table: pa.Table, top: int) -> list[TextCount]:
    if not table.num_rows:
        return []
    if table.num_rows > top:
        # Everything as frequent as the last of the first ``top``, so that ties are broken by name and not by chance.
        counts = table["count"].to_numpy()
        table = table.filter(pc.greater_equal(table["count"], int(np.partition(counts, -top)[-top])))
    order = [("count", "descending"), ("topic", "ascending"), ("text", "ascending")]
    best = table.take(pc.sort_indices(table, sort_keys=order)[:top])
    return [TextCount(-row["count"], row["topic"], row["text"], row["bytes"]) for row in best.to_pylist()]
