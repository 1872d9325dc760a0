"""Tables of Iceberg and Delta in an object store: commits whose answers are lost, writers that race."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from flaremq import Message, MessageStore
from flaremq.errors import StoreIOError
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.table import table
from flaremq.pipeline.jobs.table.compact import compact
from flaremq.pipeline.jobs.verify.tables import verify_tables
from flaremq.pipeline.tables.leases import Mark, leases
from flaremq.pipeline.tables.model.target import TableTarget, parse_target
from flaremq.pipeline.tables.open import open_table
from tests.support.s3_lab import BUCKET, BUSY, CUT, Fault, S3Server


class Topic:
    def __init__(self, path: Path) -> None:
        self.options = {"path": str(path), "topic": "orders", "brokerName": "a"}
        self.count = 0
        self._path = path

    def put(self, count: int) -> None:
        with MessageStore.open(self._path) as store:
            for number in range(self.count, self.count + count):
                store.put(Message("orders", b"%d" % number), queue_id=number % 2)
        self.count += count


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "store")
    made.put(20)
    return made


@pytest.fixture(params=["delta", "iceberg"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableTarget:
    monkeypatch.chdir(tmp_path)
    place = f"s3a://{BUCKET}/tables-{uuid.uuid4().hex[:8]}"
    if request.param == "delta":
        return parse_target(f"delta:{place}/orders")
    return parse_target("iceberg:lake.sales.orders", warehouse=place)


def bodies(target: TableTarget) -> list[int]:
    return sorted(int(body) for batch in open_table(target).read(["body"]) for body in batch["body"].to_pylist())


def test_each_message_is_in_the_table_once_through_faults(s3: S3Server, topic: Topic, target: TableTarget) -> None:
    log, data = ("_delta_log", ".parquet") if target.kind == "delta" else ("/metadata/", "/data/")
    for faults in (
        [],
        [Fault("PUT", log, CUT), Fault("PUT", data, CUT)],
        [Fault("PUT", log, BUSY), Fault("GET", "", BUSY), Fault("PUT", "_flaremq", CUT)],
    ):
        s3.fail(*faults)
        table(None, topic.options, target)
        assert s3.left == []
        topic.put(7)
    s3.fail()
    table(None, topic.options, target)
    assert bodies(target) == list(range(topic.count))


def test_beat_that_fails_leaves_the_mark_it_should_renew(s3: S3Server) -> None:
    root = ArchiveRoot(f"s3a://{BUCKET}/marks-{uuid.uuid4().hex[:8]}", {"fs.s3a.attempts.maximum": "1"})
    mark = Mark(root, "run")
    mark.beat()
    before = leases(root)
    s3.fail(*(Fault(method, "writers", BUSY, times=9) for method in ("PUT", "POST")))
    with pytest.raises(StoreIOError):
        mark.beat()
    s3.fail()
    assert leases(root) == before != []
    s3.fail(Fault("POST", "uploadId", CUT))
    mark.beat()  # carried out, only its answer was lost
    assert leases(root)[0].beat_ms > before[0].beat_ms


def test_of_two_runs_at_once_one_adds_the_messages(s3: S3Server, topic: Topic, target: TableTarget) -> None:
    table(None, topic.options, target)
    topic.put(5)
    others = []

    def other_first(*progress: object) -> None:
        if not others:  # behind what this run has written, before its commit
            others.append(table(None, topic.options, target))

    (result,) = table(None, topic.options, target, on_progress=other_first)
    assert others[0][0].rows == 5 and result.rows == 0
    assert bodies(target) == list(range(25))


def test_tables_are_compacted_and_proved(s3: S3Server, topic: Topic, target: TableTarget) -> None:
    for _ in range(3):
        table(None, topic.options, target)
        topic.put(4)
    found = compact(None, target)
    assert (found.merged, found.files_after) == (3, 1)
    table(None, topic.options, target)
    (proof,) = verify_tables(None, topic.options, target)
    assert proof.differences == () and bodies(target) == list(range(32))
