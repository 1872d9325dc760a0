"""How transactions ended: the half topic against its op topic.

A half message is done with when an op record names its queue offset. A message whose outcome was asked for was
appended again, so records are brought together by the transaction's id; one of them done with is enough. A commit
leaves a record in the real topic, marked in its flags; what is done with and left none was rolled back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.errors import CorruptionError
from flaremq.message import properties as names
from flaremq.message.transaction import parse_operation
from flaremq.pipeline.jobs.report.texts import text_hashes

HALF_COLUMNS = ("brokerName", "queueId", "queueOffset", "properties")
OP_COLUMNS = ("brokerName", "queueId", "body")

Integers = npt.NDArray[np.int64]
BrokerQueue = tuple[str, int]  # broker and queue id


@dataclass(slots=True)
class Transactions:
    """Half messages and op records of some tasks; grows by 16 and 8 bytes for each."""

    halves: dict[BrokerQueue, list[tuple[Integers, Integers]]] = field(default_factory=dict)  # offsets, ids
    done: dict[BrokerQueue, list[Integers]] = field(default_factory=dict)
    asked: int = 0  # half messages appended again to ask their producer
    topics: Counter[str] = field(default_factory=Counter)  # half messages by the topic they are for

    def count_halves(self, batch: pa.RecordBatch) -> None:
        properties = batch.column("properties")
        ids = pc.coalesce(_property(properties, names.TRANSACTION_ID), _property(properties, names.UNIQUE_KEY))
        offsets = batch.column("queueOffset").to_numpy()
        # Without an id each record stands for itself.
        own = pc.cast(batch.column("queueOffset"), pa.string())
        hashes = text_hashes(_plain(pc.coalesce(ids, own))).astype(np.int64)
        for place, rows in _places(batch):
            self.halves.setdefault(place, []).append((offsets[rows], hashes[rows]))
        self.asked += batch.num_rows - _property(properties, names.TRANSACTION_CHECK_TIMES).null_count
        for entry in pc.value_counts(_property(properties, names.REAL_TOPIC)).to_pylist():
            if entry["values"] is not None:
                self.topics[entry["values"]] += entry["counts"]

    def count_operations(self, batch: pa.RecordBatch) -> None:
        bodies = batch.column("body")
        for place, rows in _places(batch):
            offsets: list[int] = []
            for row in np.flatnonzero(rows).tolist():
                try:
                    offsets += parse_operation(bodies[row].as_py() or b"")
                except CorruptionError:
                    continue  # verify says so; a report goes on
            self.done.setdefault(place, []).append(np.unique(np.array(offsets, np.int64)))

    def add(self, other: Transactions) -> None:
        for place, halves in other.halves.items():
            self.halves.setdefault(place, []).extend(halves)
        for place, done in other.done.items():
            self.done.setdefault(place, []).extend(done)
        self.asked += other.asked
        self.topics.update(other.topics)

    def outcome(self, *, committed: int, given_up: int) -> dict[str, Any]:
        """Counts of transactions, where so many messages of committed ones are known."""
        every: list[Integers] = []
        ended: list[Integers] = []
        for place, pieces in self.halves.items():
            offsets = np.concatenate([piece[0] for piece in pieces])
            ids = np.concatenate([piece[1] for piece in pieces])
            every.append(ids)
            if place in self.done:
                ended.append(ids[np.isin(offsets, np.concatenate(self.done[place]))])
        total = len(np.unique(np.concatenate(every))) if every else 0
        done = len(np.unique(np.concatenate(ended))) if ended else 0
        return {
            "halfMessages": sum(len(ids) for ids in every),
            "transactions": total,
            "committed": committed,
            "rolledBack": max(done - committed, 0),
            "givenUp": given_up,
            "pending": max(total - max(done, committed) - given_up, 0),
            "checks": self.asked,
            "topics": dict(sorted(self.topics.items())),
        }


def _places(batch: pa.RecordBatch) -> list[tuple[BrokerQueue, npt.NDArray[np.bool_]]]:
    brokers = batch.column("brokerName").dictionary_encode()
    codes = brokers.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    queue_ids = batch.column("queueId").to_numpy()
    keys = (codes << 32) + queue_ids
    found = []
    for key in np.unique(keys).tolist():
        found.append(((str(brokers.dictionary[key >> 32]), key & 0xFFFFFFFF), keys == key))
    return found


def _property(properties: pa.Array, name: str) -> pa.Array:
    """One property of each message, null where it has none."""
    return pc.map_lookup(properties, name, "last")


def _plain(texts: pa.Array) -> pa.Array:
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
