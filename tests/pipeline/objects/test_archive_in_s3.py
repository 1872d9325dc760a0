"""An archive in an object store: writers race, are taken over, lose answers, and each message is there once."""

from __future__ import annotations

import random
import uuid

import pytest

from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.pipeline.archive import manifest as manifest_module
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.archive.compact import compact_archive
from flaremq.pipeline.jobs.archive.increment import begin, find_missing, finish, plan_tasks, recover
from flaremq.pipeline.jobs.archive.task import Receipt, archive_batches
from flaremq.pipeline.model.source import SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.sources.archive import ArchiveSource
from tests.pipeline.memory_source import EVERYTHING, OPTIONS, CrashError, MemorySource, rows_of, run_increment
from tests.support.s3_lab import BUCKET, BUSY, CUT, STALL, Fault, S3Server

QUEUE = QueueRef("orders", "broker-a", 0)


@pytest.fixture
def place() -> str:
    return f"s3a://{BUCKET}/archive-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    source.put(QUEUE, 40)
    return source


class Writer:
    """A run in steps."""

    def __init__(self, place: str, source: MemorySource) -> None:
        self.root = ArchiveRoot(place)
        self.manifest = Manifest.load_or_new(self.root)
        self.recovered = recover(self.root, self.manifest)
        self._source = source
        self.receipts: list[Receipt] = []

    def write(self) -> None:
        spans, _ = find_missing(self.manifest, self._source, OPTIONS)
        tasks = plan_tasks(self._source, SourceSpec(), spans, self.root.location, options=OPTIONS, parallelism=1)
        begin(self.root, ["orders"])
        self.receipts = [archive_batches(task, self._source.read(task.spans, EVERYTHING)) for task in tasks]

    def commit(self) -> None:
        finish(self.root, self.manifest, self.receipts, [])


def check(place: str, source: MemorySource) -> None:
    """The archive has what the source has, and nothing lies about once somebody has cleaned up."""
    run_increment(source, place)
    assert rows_of(ArchiveSource(place)) == rows_of(source)
    root = ArchiveRoot(place)
    named = {str(file.path) for file in Manifest.load(root).files if file.path is not None}
    assert set(root.list("topic=orders", recursive=True)) == named
    assert root.list("_flaremq/pending") == []


def test_of_two_writers_with_the_same_messages_one_commits(s3: S3Server, place: str, source: MemorySource) -> None:
    first, second = Writer(place, source), Writer(place, source)
    first.write()
    second.write()
    second.commit()
    with pytest.raises(UnavailableError, match="changed by another writer"):
        first.commit()
    check(place, source)


def test_commits_at_the_same_moment_are_decided_by_the_store(
    s3: S3Server, place: str, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Writer(place, source), Writer(place, source)
    first.write()
    second.write()
    listed = manifest_module._listed

    def before_the_other(root: ArchiveRoot) -> list[tuple[int, str]]:
        return [] if root is first.root else listed(root)

    second.commit()
    with monkeypatch.context() as patch:
        patch.setattr(manifest_module, "_listed", before_the_other)
        with pytest.raises(UnavailableError, match="written by another job at the same time"):
            first.commit()
    check(place, source)


def test_a_run_that_is_taken_over_while_it_lives_takes_nothing_with_it(
    s3: S3Server, place: str, source: MemorySource
) -> None:
    slow = Writer(place, source)
    slow.write()
    other = Writer(place, source)  # takes over what the slow one has finished
    assert [file.rows for file in other.recovered] == [40]
    with pytest.raises(UnavailableError, match="changed by another writer"):
        slow.commit()
    other.write()
    other.commit()
    check(place, source)


def test_who_takes_over_removes_no_files_of_runs_that_began_later(
    s3: S3Server, place: str, source: MemorySource
) -> None:
    first = Writer(place, source)
    first.write()
    first.manifest.commit([file for receipt in first.receipts for file in receipt.files])
    source.put(QUEUE, 5)
    later = Writer(place, source)
    later.write()
    first.manifest = Manifest.load(first.root)
    finish(first.root, first.manifest, [], [])  # the first one cleans up only now
    later.commit()
    check(place, source)


def test_a_writer_that_slept_through_a_snapshot_does_not_believe_its_commit(
    s3: S3Server, place: str, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_module, "_DELTAS_MAX", 2)
    sleeper = Writer(place, source)
    sleeper.write()
    listed, looks = manifest_module._listed, []

    def first_look_is_old(root: ArchiveRoot) -> list[tuple[int, str]]:
        if root is not sleeper.root:
            return listed(root)
        looks.append(root)
        return [] if len(looks) == 1 else listed(root)

    other = Manifest.load_or_new(ArchiveRoot(place))
    for _ in range(8):
        other.commit([])
    assert "_flaremq/manifest-0000000001.delta.jsonl" not in other.root.list("_flaremq")
    monkeypatch.setattr(manifest_module, "_listed", first_look_is_old)
    with pytest.raises(UnavailableError, match="changed by another writer"):
        sleeper.commit()
    check(place, source)


@pytest.mark.parametrize("kind", [CUT, STALL, BUSY])
def test_a_commit_whose_answer_is_lost_is_made_once(s3: S3Server, place: str, source: MemorySource, kind: str) -> None:
    writer = Writer(place, source)
    writer.root = ArchiveRoot(place, {"fs.s3a.connection.timeout": "1s"})
    writer.manifest = Manifest.load_or_new(writer.root)
    writer.write()
    s3.fail(Fault("PUT", "manifest-", kind))
    writer.commit()
    assert s3.met == {kind: 1} and Manifest.load(place).sequence == 1
    check(place, source)


def test_a_commit_of_another_is_not_taken_for_the_one_whose_answer_was_lost(
    s3: S3Server, place: str, source: MemorySource
) -> None:
    first, second = Writer(place, source), Writer(place, source)
    first.write()
    second.write()
    s3.fail(Fault("PUT", "manifest-", CUT))
    first.commit()
    with pytest.raises(UnavailableError):
        second.commit()
    check(place, source)


def test_an_upload_whose_last_answer_was_lost_is_there(s3: S3Server, place: str) -> None:
    root = ArchiveRoot(place)
    s3.fail(Fault("POST", "uploadId=", CUT))
    root.write_bytes("large", bytes(11 << 20))  # in three parts
    assert s3.met == {CUT: 1} and root.size("large") == 11 << 20


def test_each_message_is_archived_once_through_faults_of_all_kinds(
    s3: S3Server, place: str, source: MemorySource
) -> None:
    chance, met = random.Random(17), set()
    requests = [
        ("PUT", "part-"),
        ("PUT", "receipt"),
        ("PUT", "manifest-"),
        ("GET", "list-type"),
        ("DELETE", "_flaremq"),
    ]
    for _ in range(4):
        s3.fail(*(Fault(*request, chance.choice([CUT, CUT, BUSY])) for request in chance.sample(requests, 3)))
        try:
            run_increment(source, place)
        except (StoreIOError, UnavailableError):
            pass  # the next run takes it up
        met |= s3.met.keys()
        source.put(QUEUE, chance.randrange(1, 9))
    assert met == {CUT, BUSY}
    s3.fail()
    check(place, source)


def test_an_account_in_an_address_is_refused_without_being_shown() -> None:
    with pytest.raises(InvalidArgumentError, match="s3://bucket/folder") as refused:
        ArchiveRoot("s3://AKIA:hush@bucket/archive")
    assert "hush" not in str(refused.value) and "AKIA" not in str(refused.value)


def test_an_address_may_say_where_the_store_is(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    host = s3.endpoint.removeprefix("http://")
    root = ArchiveRoot(f"s3://{BUCKET}/by-address?endpoint_override={host}&scheme=http")
    root.write_bytes("a", b"1")
    assert root.read_bytes("a") == b"1" and root.full_path("a") == f"{BUCKET}/by-address/a"
    with pytest.raises(InvalidArgumentError, match="behind"):
        ArchiveRoot(f"s3://{BUCKET}/by-address?secret_key=hush")


def test_half_written_object_is_removed(s3: S3Server, place: str) -> None:
    root = ArchiveRoot(place)
    with pytest.raises(RuntimeError), root.replacing("folder/object") as file:
        file.write(b"half")
        raise RuntimeError
    assert root.list("folder") == []


def test_archive_is_compacted_and_a_writer_that_slept_meanwhile_is_refused(
    s3: S3Server, place: str, source: MemorySource
) -> None:
    for _ in range(3):
        run_increment(source, place)
        source.put(QUEUE, 5)
    sleeper = Writer(place, source)
    s3.fail(Fault("PUT", "manifest-", CUT))
    found = compact_archive(None, place)
    assert s3.left == [] and (found.merged, found.files_after) == (3, 1)
    sleeper.write()
    with pytest.raises(UnavailableError, match="changed by another writer"):
        sleeper.commit()
    check(place, source)


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "behind"])
def test_files_of_a_compaction_that_was_killed_behind_its_commit_are_moved_by_the_next_run(
    s3: S3Server, place: str, source: MemorySource, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        run_increment(source, place)
        source.put(QUEUE, 5)
    real = ArchiveRoot.set_aside

    def crash(root: ArchiveRoot, path: str) -> None:
        if is_done:
            real(root, path)
        raise CrashError

    with monkeypatch.context() as patch, pytest.raises(CrashError):
        patch.setattr(ArchiveRoot, "set_aside", crash)
        compact_archive(None, place)
    check(place, source)
    assert len(ArchiveRoot(place).list("_flaremq/replaced", recursive=True)) == 3


def test_a_store_that_does_not_answer_is_no_damage(s3: S3Server, place: str, source: MemorySource) -> None:
    run_increment(source, place)
    archive = ArchiveSource(place, {"fs.s3a.attempts.maximum": "1"})
    extents = archive.extents(TopicSelector())
    s3.fail(Fault("GET", "part-", BUSY, times=5))
    with pytest.raises(StoreIOError):
        list(archive.read([Span(extent.queue, extent.min_offset, extent.max_offset) for extent in extents], EVERYTHING))
