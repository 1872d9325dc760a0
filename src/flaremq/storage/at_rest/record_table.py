"""What the core's table of a batch of records tells without looking at the records one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flaremq.core.arrays import Integers
from flaremq.core.queue import find_marked, group_queues
from flaremq.core.table import (
    MARK_BAD_TEXT,
    MARK_INNER_BATCH,
    MARK_MULTI_DISPATCH,
    QUEUE_ID,
    QUEUE_OFFSET,
    TOPIC_AT,
    TOPIC_LENGTH,
)
from flaremq.storage.log.walk import RecordBatch
from flaremq.storage.queue.table import QueueId

# Rows that stand for more than one queue offset or queue, or whose text the core does not read.
_SINGLY_MARKS = MARK_INNER_BATCH | MARK_MULTI_DISPATCH | MARK_BAD_TEXT


def is_read_singly(batch: RecordBatch) -> bool:
    """Whether these records must be looked at one by one: the table does not tell all about them."""
    rows = len(batch.starts)
    return batch.table is None or find_marked(batch.table.cells, 0, rows, _SINGLY_MARKS) < rows


def queue_groups(batch: RecordBatch) -> Iterator[tuple[QueueId, Integers]]:
    """Each queue with the rows of its records, ascending; only for batches that are not read singly."""
    columns = batch.columns
    grouped, starts = group_queues(batch.data, columns, len(batch.starts))
    order: Integers = np.frombuffer(grouped, np.int64)
    for group in range(len(starts) - 1):
        members = order[starts[group] : starts[group + 1]]
        first = members[0]
        topic_at = int(columns[TOPIC_AT, first])
        topic = batch.data[topic_at : topic_at + int(columns[TOPIC_LENGTH, first])]
        yield (str(topic, "utf-8", "replace"), int(columns[QUEUE_ID, first])), members


def queue_spans(batch: RecordBatch) -> Iterator[tuple[QueueId, int, int]]:
    """Each queue with the lowest and behind the highest queue offset of its records."""
    offsets = batch.columns[QUEUE_OFFSET]
    for place, members in queue_groups(batch):
        mine = offsets[members]
        yield place, int(mine.min()), int(mine.max()) + 1
