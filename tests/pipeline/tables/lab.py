"""A topic that grows, and tables made of it in this process: no Spark, no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.pipeline.jobs.table import table
from flaremq.pipeline.jobs.table.job import TableResult, TableSettings
from flaremq.pipeline.tables.model.lake_table import LakeTable
from flaremq.pipeline.tables.model.target import TableTarget, parse_target
from flaremq.pipeline.tables.open import open_table
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions

SIZES = {"mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "2000", "maxHashSlotNum": "200"}
SIZES |= {"maxIndexNum": "800", "flushDiskType": "ASYNC_FLUSH"}
FIRST_MS = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
FORMATS = ("iceberg", "delta")
HOUR_MS = 3_600_000


class TableLab:
    """A store with the topic ``orders`` in four queues, and a lakehouse beside it."""

    def __init__(self, place: Path, kind: str) -> None:
        self.root = place / "store"
        self.lake = place / "lake"
        self.kind = kind
        self.bodies: list[bytes] = []
        self._clock = ManualClock(FIRST_MS)

    def target(self, name: str = "orders") -> TableTarget:
        if self.kind == "delta":
            return parse_target(f"delta:{self.lake}/{name}")
        return parse_target(f"iceberg:lake.sales.{name}", warehouse=str(self.lake))

    def put(self, count: int = 40, *, topic: str = "orders", bodies: Sequence[bytes] = (), step_ms: int = 1000) -> None:
        """Messages a second apart."""
        bodies = bodies or [b'{"id": "o-%d", "amount": %d}' % (at, at) for at in range(count)]
        with MessageStore.open(self.root, StoreOptions.from_properties(SIZES), clock=self._clock) as store:
            for at, body in enumerate(bodies):
                tags = ("paid", "shipped", None)[at % 3]
                message = Message(topic, body, tags=tags, keys=[f"k-{at}"], properties={"region": "eu"})
                store.put(message, queue_id=at % 4)
                self._clock.advance(step_ms)
        self.bodies += bodies

    def run(self, name: str = "orders", topic: str = "orders", **settings: Any) -> TableResult:
        """One run of the job."""
        return self.run_all(name, topic, **settings)[0]

    def run_all(self, name: str = "orders", topic: str = "orders", **settings: Any) -> list[TableResult]:
        return table(None, self.options(topic), self.target(name), TableSettings(**settings))

    def options(self, topic: str = "orders", **more: str) -> dict[str, str]:
        place = {"path": f"broker-a={self.root}", "maxHashSlotNum": "200", "maxIndexNum": "800"}
        return place | ({"topic": topic} if topic else {}) | more

    def open(self, name: str = "orders") -> LakeTable:
        return open_table(self.target(name))

    def rows(self, name: str = "orders", *columns: str) -> list[dict[str, Any]]:
        """The table's rows, sorted by place."""
        found = self.open(name)
        wanted = columns or tuple(found.columns().names)
        rows = [row for batch in found.read(wanted) for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: [str(row.get(key)).zfill(9) for key in ("topic", "queueId", "queueOffset")])

    def offsets(self, name: str = "orders") -> list[tuple[int, int]]:
        return sorted((row["queueId"], row["queueOffset"]) for row in self.rows(name, "queueId", "queueOffset"))

    def expected_offsets(self) -> list[tuple[int, int]]:
        """Of everything put into ``orders``, if that is the only topic."""
        return self.offsets_of(len(self.bodies))

    @staticmethod
    def offsets_of(count: int) -> list[tuple[int, int]]:
        return sorted((at % 4, at // 4) for at in range(count))

    def data_files(self, name: str = "orders") -> list[Path]:
        folder = self.lake / name if self.kind == "delta" else self.lake / "sales" / name / "data"
        return sorted(path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)

    def table_of(self, name: str = "orders") -> pa.Table:
        found = self.open(name)
        return pa.Table.from_batches(list(found.read(found.columns().names)))
