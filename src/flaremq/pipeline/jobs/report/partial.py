"""What one task counts of its messages, and how such counts add up.

Everything but texts (tags and keys, see ``texts``) is small: it grows with topics, queues and time steps, not
with messages. ``add`` is associative and commutative, so the parts may come in any order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.message.sys_flag import TRANSACTION_MASK, TransactionType
from flaremq.message.topics import is_dlq_topic, is_retry_topic, is_system_topic
from flaremq.pipeline.jobs.report.histogram import BUCKETS, Histogram, buckets_of
from flaremq.pipeline.jobs.report.series import Series

Integers = npt.NDArray[np.int64]

COUNTED_COLUMNS = (
    "topic",
    "brokerName",
    "queueId",
    "storeSize",
    "tags",
    "keys",
    "sysFlag",
    "bornTimestamp",
    "storeTimestamp",
    "reconsumeTimes",
)


@dataclass(slots=True)
class QueueCount:
    """One queue's part."""

    messages: int
    size_bytes: int
    first_ms: int
    last_ms: int

    def add(self, other: QueueCount) -> None:
        self.messages += other.messages
        self.size_bytes += other.size_bytes
        self.first_ms = min(self.first_ms, other.first_ms)
        self.last_ms = max(self.last_ms, other.last_ms)


@dataclass(slots=True)
class Partial:
    """Counts of some messages."""

    queues: dict[tuple[str, str, int], QueueCount] = field(default_factory=dict)
    series: Series = field(default_factory=Series)
    sizes: dict[str, Histogram] = field(default_factory=dict)
    latencies: dict[str, Histogram] = field(default_factory=dict)  # born → stored, milliseconds
    clock_skew: Counter[str] = field(default_factory=Counter)  # stored before they were born
    consumed_again: Counter[tuple[str, int]] = field(default_factory=Counter)  # retry and dead-letter topics, by times
    committed: Counter[str] = field(default_factory=Counter)  # messages of committed transactions

    def count(self, batch: pa.RecordBatch) -> None:
        """Add a batch with (at least) ``COUNTED_COLUMNS``."""
        if not batch.num_rows:
            return
        topics, codes = _coded(batch.column("topic"))
        brokers, broker_codes = _coded(batch.column("brokerName"))
        sizes = _integers(batch.column("storeSize"))
        stored = _milliseconds(batch.column("storeTimestamp"))
        latency = stored - _milliseconds(batch.column("bornTimestamp"))
        self._count_queues(topics, codes, brokers, broker_codes, _integers(batch.column("queueId")), sizes, stored)
        self.series.count(topics, codes, stored // 1000, sizes)
        _count_values(self.sizes, topics, codes, sizes)
        _count_values(self.latencies, topics, codes, np.maximum(latency, 0))
        _count_rows(self.clock_skew, topics, codes[latency < 0])
        kinds = _integers(batch.column("sysFlag")) & TRANSACTION_MASK
        _count_rows(self.committed, topics, codes[kinds == TransactionType.COMMIT])
        again = np.array([is_retry_topic(topic) or is_dlq_topic(topic) for topic in topics])[codes]
        if again.any():
            times = np.clip(_integers(batch.column("reconsumeTimes"))[again], 0, 1 << 20)
            pairs, counts = np.unique((codes[again] << 21) + times, return_counts=True)
            for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
                self.consumed_again[topics[pair >> 21], pair & ((1 << 21) - 1)] += count

    def add(self, other: Partial) -> None:
        for queue, part in other.queues.items():
            self._add_queue(queue, part)
        self.series.add(other.series)
        for mine, theirs in ((self.sizes, other.sizes), (self.latencies, other.latencies)):
            for topic, histogram in theirs.items():
                mine.setdefault(topic, Histogram()).add(histogram)
        self.clock_skew.update(other.clock_skew)
        self.committed.update(other.committed)
        self.consumed_again.update(other.consumed_again)

    def _add_queue(self, queue: tuple[str, str, int], part: QueueCount) -> None:
        if queue in self.queues:
            self.queues[queue].add(part)
        else:
            self.queues[queue] = replace(part)

    def _count_queues(
        self,
        topics: list[str],
        codes: Integers,
        brokers: list[str],
        broker_codes: Integers,
        queue_ids: Integers,
        sizes: Integers,
        stored: Integers,
    ) -> None:
        keys, inverse, counts = np.unique(
            ((codes * len(brokers) + broker_codes) << 31) + queue_ids, return_inverse=True, return_counts=True
        )
        bytes_of = np.bincount(inverse, weights=sizes, minlength=len(keys)).astype(np.int64)
        first = np.full(len(keys), np.iinfo(np.int64).max)
        last = np.full(len(keys), np.iinfo(np.int64).min)
        np.minimum.at(first, inverse, stored)
        np.maximum.at(last, inverse, stored)
        for at, key in enumerate(keys.tolist()):
            topic, broker = divmod(key >> 31, len(brokers))
            queue = (topics[topic], brokers[broker], key & (2**31 - 1))
            self._add_queue(queue, QueueCount(int(counts[at]), int(bytes_of[at]), int(first[at]), int(last[at])))


def is_application_topic(topic: str) -> bool:
    """Whether messages are here because somebody sent them here: no system, retry or dead-letter topic."""
    return not (is_system_topic(topic) or is_retry_topic(topic) or is_dlq_topic(topic))


def _count_values(table: dict[str, Histogram], topics: list[str], codes: Integers, values: Integers) -> None:
    if len(topics) == 1:
        table.setdefault(topics[0], Histogram()).add(Histogram.of(values))
        return
    # One pass for all topics of a batch, however many there are.
    pairs, counts = np.unique(codes * BUCKETS + buckets_of(values), return_counts=True)
    totals = np.bincount(codes, weights=values, minlength=len(topics)).astype(np.int64)
    low = np.full(len(topics), np.iinfo(np.int64).max)
    high = np.full(len(topics), -1)
    np.minimum.at(low, codes, values)
    np.maximum.at(high, codes, values)
    parts: dict[int, Histogram] = {}
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        code, bucket = divmod(pair, BUCKETS)
        part = parts.get(code)
        if part is None:
            part = parts[code] = Histogram({}, 0, int(totals[code]), int(low[code]), int(high[code]))
        part.counts[bucket] = count
        part.count += count
    for code, part in parts.items():
        table.setdefault(topics[code], Histogram()).add(part)


def _count_rows(table: Counter[str], topics: list[str], codes: Integers) -> None:
    for code, count in enumerate(np.bincount(codes, minlength=len(topics)).tolist()):
        if count:
            table[topics[code]] += count


def _coded(column: pa.Array) -> tuple[list[str], Integers]:
    """Distinct texts and, for each row, which."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _integers(column: pa.Array) -> Integers:
    values: Integers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def _milliseconds(column: pa.Array) -> Integers:
    """A timestamp column, in whatever unit, as milliseconds."""
    return _integers(column.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()))
