"""The same messages from store, cluster and archive; archives that are not on a local disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from flaremq.clock import SystemClock
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.message import Message
from flaremq.pipeline.archive import root as archive_root
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.archive.row_digest import RowDigest, digest_batch
from flaremq.pipeline.jobs.archive.increment import finish, recover
from flaremq.pipeline.jobs.archive.task import ArchiveTask, archive_batches, run_archive_task
from flaremq.pipeline.model.source import Source, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.sources.archive import ArchiveSource
from flaremq.pipeline.sources.open import open_source
from flaremq.sync import Producer
from flaremq.testing import ephemeral_broker
from tests.pipeline.conftest import FilledStore
from tests.pipeline.memory_source import EVERYTHING, CrashError, MemorySource, rows_of, run_increment
from tests.support.golden import GoldenStore


def archive_of(spec: SourceSpec, out: Path) -> ArchiveSource:
    """Everything the source holds, as one task."""
    with open_source(spec) as source:
        extents = source.extents(TopicSelector(pattern=".*"))
    spans = tuple(Span(extent.queue, extent.min_offset, extent.max_offset) for extent in extents)
    spans = tuple(span for span in spans if span.start < span.end)
    receipt = run_archive_task(ArchiveTask(str(out), spec, spans))
    Manifest.load_or_new(ArchiveRoot(str(out))).commit(receipt.files)
    return ArchiveSource(str(out))


def test_archive_of_a_rocketmq_store_has_the_rows_of_its_files(golden_55: GoldenStore, tmp_path: Path) -> None:
    geometry = {name: golden_55.options[name] for name in ("maxHashSlotNum", "maxIndexNum")}
    spec = SourceSpec(paths=(("g", str(golden_55.root)),), geometry=geometry)
    archive = archive_of(spec, tmp_path)
    with open_source(spec) as source:
        extents = source.extents(TopicSelector(pattern=".*"))
        spans = [Span(extent.queue, extent.min_offset, extent.max_offset) for extent in extents]
        spans = [span for span in spans if span.start < span.end]
        assert len(spans) > 5
        assert rows_of(archive, spans) == rows_of(source, spans)


def test_offset_by_time_agrees_with_the_store(orders_store: FilledStore, tmp_path: Path) -> None:
    spec = SourceSpec(
        paths=(("broker-a", str(orders_store.root)),), geometry={"maxHashSlotNum": "200", "maxIndexNum": "800"}
    )
    archive = archive_of(spec, tmp_path)
    with open_source(spec) as source:
        for queue in (QueueRef("orders", "broker-a", 2), QueueRef("users", "broker-a", 1)):
            for row in orders_store.rows[::17]:
                for time_ms in (row["storeTimestamp"] - 1, row["storeTimestamp"], row["storeTimestamp"] + 1):
                    assert archive.offset_by_time(queue, time_ms) == source.offset_by_time(queue, time_ms)


def spans_of(source: Source, count: int) -> list[Span]:
    """Every queue whole, once its queues hold so many: an acknowledged message is in its queue a moment later."""
    while True:
        extents = source.extents(TopicSelector(("wired",)))
        if sum(extent.max_offset - extent.min_offset for extent in extents) == count:
            return [Span(extent.queue, extent.min_offset, extent.max_offset) for extent in extents]


def test_wire_and_archive_of_it_have_the_digest_of_the_rows(tmp_path: Path) -> None:
    with ephemeral_broker(clock=SystemClock(), flushDiskType="ASYNC_FLUSH") as broker:
        with Producer(broker.name_server) as producer:
            messages = [Message("wired", b"%d" % at * 40, tags="t", keys=[f"k{at}"]) for at in range(300)]
            messages.append(Message("wired", b"compressed " * 2000))
            for message in messages:
                producer.submit(message)
            producer.flush()
        spec = SourceSpec(name_server=broker.name_server)
        with open_source(spec) as source:
            spans = spans_of(source, len(messages))
            read = sum((digest_batch(batch) for batch in source.read(spans, EVERYTHING)), RowDigest())
            archive = archive_of(spec, tmp_path)
            assert rows_of(archive, spans) == rows_of(source, spans)
    runs = [segment.run for span in spans for segment in archive.manifest(None).segments(span.queue)]
    assert sum((RowDigest.from_text(run.messages, run.digest) for run in runs), RowDigest()) == read
    assert read.count == 301


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URI whose file system is a folder, treated as one that is not local."""
    (tmp_path / "bucket").mkdir()
    store = fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem())

    class Foldered:
        """Writing makes the folders that an object store does not have."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def open_output_stream(self, path: str) -> object:
            store.create_dir(path.rpartition("/")[0], recursive=True)
            return store.open_output_stream(path)

    class FromUri:
        @staticmethod
        def from_uri(uri: str) -> tuple[object, str]:
            return Foldered(), uri.removeprefix("gs://")

    class Files:
        FileSystem = FromUri
        LocalFileSystem = fs.LocalFileSystem
        FileSelector = fs.FileSelector
        FileType = fs.FileType

    monkeypatch.setattr(archive_root, "fs", Files)
    return "gs://bucket/archive"


def test_archive_in_an_object_store_is_written_resumed_and_read(bucket: str) -> None:
    source = MemorySource()
    queue = QueueRef("orders", "broker-a", 0)
    source.put(queue, 20)
    run_increment(source, bucket)
    source.put(queue, 5)
    assert run_increment(source, bucket).spans == [Span(queue, 20, 25)]
    assert rows_of(ArchiveSource(bucket)) == rows_of(source)


def test_an_attempt_that_fails_in_an_object_store_takes_nothing_of_another_with_it(bucket: str) -> None:
    source = MemorySource()
    queue = QueueRef("orders", "broker-a", 0)
    source.put(queue, 20)
    task = ArchiveTask(bucket, SourceSpec(), (Span(queue, 0, 20),), buffer_bytes=1000)
    root = ArchiveRoot(bucket)
    good = archive_batches(task, source.read(task.spans, EVERYTHING))

    def failing() -> Iterator[pa.RecordBatch]:
        yield from source.read([Span(queue, 0, 15)], EVERYTHING)
        raise CrashError

    with pytest.raises(CrashError):
        archive_batches(task, failing())
    late = archive_batches(task, source.read(task.spans, EVERYTHING))
    assert not {file.path for file in good.files} & {file.path for file in late.files} and good.path != late.path
    manifest = Manifest.load_or_new(root)
    finish(root, manifest, [good], [])
    assert root.list("topic=orders", recursive=True) == sorted(str(file.path) for file in good.files)
    assert rows_of(ArchiveSource(bucket)) == rows_of(source)
    archive_batches(task, source.read(task.spans, EVERYTHING))  # it was given up, and ends only now
    assert recover(root, manifest) == []
    assert root.list("topic=orders", recursive=True) == sorted(str(file.path) for file in good.files)
    assert root.list("_flaremq/pending") == []


def test_a_commit_that_another_job_replaced_at_the_same_moment_is_found_out(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ArchiveRoot(bucket)
    read = ArchiveRoot.read_bytes
    monkeypatch.setattr(ArchiveRoot, "read_bytes", lambda self, path: read(self, path) + b"of the other")
    with pytest.raises(UnavailableError, match="written by another job at the same time"):
        Manifest.load_or_new(root).commit([])


def test_object_whose_writing_failed_is_removed(bucket: str) -> None:
    root = ArchiveRoot(bucket)
    with pytest.raises(RuntimeError), root.replacing("folder/object") as file:
        file.write(b"half")
        raise RuntimeError
    assert root.list("folder") == []


def test_place_that_cannot_be_is_told() -> None:
    with pytest.raises(InvalidArgumentError, match="needs a directory"):
        ArchiveRoot("")
    with pytest.raises(InvalidArgumentError, match="nowhere://x"):
        ArchiveRoot("nowhere://x")
