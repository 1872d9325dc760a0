"""The same rows on both sides, before anything is measured."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from benchmarks import child
from benchmarks.kafka.server import KafkaServer
from benchmarks.messages import QUEUES
from benchmarks.rounds import tell
from benchmarks.spark.rows import SIZE, SPAN_MS, TOPIC


def store_rows(stack: ExitStack, folder: Path, *, bodies: str, rows: int, base_ms: int) -> tuple[Path, KafkaServer]:
    """A store of ours, and a Kafka as long as ``stack``."""
    store = folder / "store"
    filled = child.run("spark.rows:fill_store", folder=str(store), bodies=bodies, count=rows, base_ms=base_ms)
    tell(f"  stored {filled}")
    kafka = stack.enter_context(KafkaServer(folder / "kafka"))
    kafka.load("topic", topic=TOPIC, partitions=QUEUES)
    filled = kafka.load(
        "fill", topic=TOPIC, partitions=QUEUES, file=bodies, size=SIZE, messages=rows, base=base_ms, span=SPAN_MS
    )
    tell(f"  stored in Kafka {filled}")
    return store, kafka
