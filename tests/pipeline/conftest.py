"""What the tests of the pipeline share: one Spark session for the whole run, and stores to read.

Every test that uses ``spark`` is marked ``spark`` and put into one group (``tests/conftest.py``): a single worker runs
them all and starts a single JVM.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.golden import GoldenStore, open_golden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PRELOADED = Path(__file__).with_name("preloaded")
FIRST_MS = 1_700_000_000_000
SIZES = {"mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "2000"}
SIZES |= {"maxHashSlotNum": "200", "maxIndexNum": "800"}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session: small, quiet, gone afterwards."""
    from flaremq.pipeline.jobs.session import spark_session

    place = str(tmp_path_factory.mktemp("spark"))
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": place,
        "spark.local.dir": place,
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.streaming.metricsEnabled": "false",
        # A short life: quick to compile counts for more than quick to run.
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={place} "
        f"-Djava.io.tmpdir={place}",
    }
    # Python workers have the path of the JVM: flaremq and tests are imported from here, installed or not.
    paths = [str(PRELOADED), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
        patch.setenv("XDG_CACHE_HOME", str(ROOT / ".cache"))  # for the home of Spark, which outlives the JVM
        session = spark_session("local[2]", name="flaremq-tests", settings=settings)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()


@dataclass(frozen=True, slots=True)
class FilledStore:
    """A closed store and what was put into it, a row a message by the names of the columns."""

    root: Path
    rows: list[dict[str, Any]]

    @property
    def options(self) -> dict[str, str]:
        """What a reader needs to know of it."""
        return {"path": f"broker-a={self.root}", "maxHashSlotNum": "200", "maxIndexNum": "800"}

    def offsets(self, *wanted: str, **values: Any) -> list[tuple[Any, ...]]:
        """Columns of the rows that have these values, sorted."""
        found = [row for row in self.rows if all(row[name] == value for name, value in values.items())]
        return sorted(tuple(row[name] for name in wanted) for row in found)


def fill_store(root: Path, *, count: int = 600, first: int = 0) -> FilledStore:
    """``orders`` with four queues, ``users`` with two, ``%RETRY%billing`` with one; tags, keys, properties; a message a
    second by a clock that starts at ``FIRST_MS``."""
    clock = ManualClock(FIRST_MS + first * 1000)
    options = StoreOptions.from_properties(SIZES | {"flushDiskType": "ASYNC_FLUSH"})
    rows: list[dict[str, Any]] = []
    with MessageStore.open(root, options, clock=clock) as store:
        for at in range(first, first + count):
            topic, queues = (("orders", 4), ("orders", 4), ("orders", 4), ("users", 2), ("%RETRY%billing", 1))[at % 5]
            tag = ("paid", "shipped", None)[at % 3]
            keys = [f"k-{at}", f"shared-{at % 50}"]
            body = f"body of {at} ".encode() * (1 + at % 7)
            message = Message(topic, body, tags=tag, keys=keys, properties={"region": "eu" if at % 2 else "us"})
            put = store.put(message, queue_id=at // 5 % queues)
            rows.append(
                {"topic": topic, "queueId": at // 5 % queues, "queueOffset": put.queue_offset, "tags": tag}
                | {"physicalOffset": put.physical_offset, "keys": " ".join(keys), "body": body, "at": at}
                | {"msgId": put.message_id, "storeTimestamp": clock.now_ms()}
            )
            clock.advance(1000)
    return FilledStore(root, rows)


@pytest.fixture
def fresh_store(tmp_path: Path) -> FilledStore:
    """A store of the test's own, to change."""
    return fill_store(tmp_path / "store")


@pytest.fixture(scope="session")
def orders_store(tmp_path_factory: pytest.TempPathFactory) -> FilledStore:
    """The same for all tests that only read: 600 messages of 10 minutes."""
    return fill_store(tmp_path_factory.mktemp("orders") / "store")


@pytest.fixture(scope="session")
def golden_55(tmp_path_factory: pytest.TempPathFactory) -> GoldenStore:
    """A store that RocketMQ 5.5 wrote. Read only."""
    return open_golden("rmq55-clean", tmp_path_factory.mktemp("golden"))
