"""What the cluster works on: a closed store of two topics, and the messages of a running broker."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flaremq import Message, MessageStore, StoreOptions
from flaremq.sync import Producer
from tests.pipeline.cluster.drivers.steps import digest_of

TOPICS = {"orders": 4, "payments": 2}  # name and number of queues
LIVE_TOPIC = "live"
GEOMETRY = {"maxHashSlotNum": "5000", "maxIndexNum": "20000"}

Row = tuple[str, int, int, str, bytes]


@dataclass(frozen=True)
class Data:
    """A closed store and a broker, and the rows they hold."""

    store: Path
    rows: list[Row]
    name_server: str
    live_rows: list[Row]

    def arguments(self, out: Path) -> dict[str, Any]:
        """For a driver that writes below ``out``."""
        out.mkdir()
        return {
            "store": str(self.store),
            "name_server": self.name_server,
            "topics": ",".join(TOPICS),
            "live_topic": LIVE_TOPIC,
            "out": str(out),
            **GEOMETRY,
        }


def fill_store(folder: Path, count: int) -> list[Row]:
    """``count`` messages of up to 2 KB in files of 1 MiB; the rows a scan of them gives."""
    random_bytes = random.Random(5)
    options = StoreOptions.from_properties(
        {
            **GEOMETRY,
            "mappedFileSizeCommitLog": str(1 << 20),
            "mappedFileSizeConsumeQueue": "6000",
            "flushDiskType": "ASYNC_FLUSH",
        }
    )
    rows = []
    with MessageStore.open(str(folder), options) as store:
        for number in range(count):
            topic = "payments" if number % 5 == 0 else "orders"
            queue = random_bytes.randrange(TOPICS[topic])
            body = random_bytes.randbytes(random_bytes.randrange(1, 2048))
            put = store.put(Message(topic, body, keys=f"key-{number}", tags=f"tag-{number % 3}"), queue_id=queue)
            assert put.ok
            rows.append((topic, queue, put.queue_offset, f"key-{number}", body))
        store.wait_for_dispatch()
    return sorted(rows)


def send_live(name_server: str, count: int) -> list[Row]:
    """So many messages over the wire; the rows as their receipts tell."""
    rows = []
    with Producer(name_server, group="cluster-test") as producer:
        for number in range(count):
            body = b"live %d" % number
            sent = producer.send(Message(LIVE_TOPIC, body, keys=f"live-{number}"))
            rows.append((LIVE_TOPIC, sent.queue.queue_id, sent.queue_offset, f"live-{number}", body))
    return sorted(rows)


def digest(rows: list[Row]) -> dict[str, Any]:
    """As a driver reports them."""
    return digest_of(rows)
