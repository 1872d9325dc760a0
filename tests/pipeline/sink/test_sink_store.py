"""The sink into a closed store: staged by tasks, taken in by the driver, once, whatever breaks in between."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.write_stream import stem_of
from flaremq.pipeline.sink import staging
from flaremq.pipeline.sink import store as sink_store
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.rows import RowRules
from flaremq.pipeline.sink.task import SinkTask, TaskIdentity
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore
from flaremq.storage.verify.verifier import StoreVerifier
from tests.pipeline.sink_lab import bodies, numbered
from tests.support.golden import open_golden

SIZES = {"mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "2000"}
SIZES |= {"maxHashSlotNum": "200", "maxIndexNum": "800"}
WRITE = "query"


def options_for(root: Path, **given: str) -> SinkOptions:
    return parse_sink_options({"path": str(root), "topic": "T", **SIZES, **given})


def stage(
    options: SinkOptions, batch_id: int, partition: int, *batches: pa.RecordBatch, attempt: str = "0"
) -> staging.StagedFile:
    """What a task does."""
    task = TaskIdentity(WRITE, batch_id, partition)
    folder = staging.batch_folder(options.path, stem_of("write", WRITE), batch_id)
    check_lane = partial(sink_store.check_queue, options.path, queues=options.queues)
    with staging.StagingTarget(folder, task, attempt, check_lane) as target:
        rules = RowRules(options.topic, options.max_message_size)
        report = SinkTask(target, task, rules, request_bytes=1024).write(batches)
    return staging.StagedFile(target.name, target.size, partition, report.rows)


def commit(options: SinkOptions, batch_id: int, files: Sequence[staging.StagedFile]) -> None:
    """What the driver does."""
    manifest = staging.StagedBatch(stem_of("write", WRITE), batch_id, WRITE, True, tuple(files))
    staging.decide(options.path, manifest)
    sink_store.take_in(options)


def stored_bodies(root: Path, topic: str = "T") -> list[str]:
    with StoreReader.open(root) as reader:
        found = [MessageExt(bytes(record)) for _, record in reader.records()]
    return [bytes(message.body).decode() for message in found if message.topic == topic]


def assert_sound(root: Path) -> None:
    with StoreReader.open(root) as reader:
        assert [str(finding) for finding in StoreVerifier(reader).findings()] == []


def left_over(root: Path) -> list[str]:
    found = [path for path in (root / staging.STAGING).rglob("*") if path.is_file()]
    return sorted(path.name for path in found)


def test_rows_of_all_tasks_come_into_a_new_store_that_is_sound(tmp_path: Path) -> None:
    options = options_for(tmp_path / "store")
    files = [stage(options, 0, 0, bodies(numbered(0, 700))), stage(options, 0, 1, bodies(numbered(700, 1500)))]
    commit(options, 0, files)
    assert stored_bodies(tmp_path / "store") == numbered(0, 1500)
    assert left_over(tmp_path / "store") == ["done"]
    assert_sound(tmp_path / "store")
    topics = json.loads((tmp_path / "store/config/topics.json").read_text())
    assert topics["topicConfigTable"]["T"]["writeQueueNums"] == 4


def test_a_batch_that_comes_again_in_any_order_changes_nothing(tmp_path: Path) -> None:
    options = options_for(tmp_path / "store")
    commit(options, 5, [stage(options, 5, 0, bodies(numbered(0, 50)))])
    commit(options, 5, [stage(options, 5, 0, bodies(reversed(numbered(0, 50))), attempt="1")])
    assert stored_bodies(tmp_path / "store") == numbered(0, 50)
    commit(options, 6, [stage(options, 6, 0, bodies(numbered(50, 60)))])
    assert stored_bodies(tmp_path / "store") == numbered(0, 60)


@pytest.mark.parametrize("after", [1, 2, 5, 9])
def test_a_commit_that_died_half_way_is_finished_by_the_next(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    options = options_for(root)
    files = [stage(options, 0, part, bodies(numbered(100 * part, 100 * part + 100))) for part in range(2)]
    appended = 0
    append = StoreDriver.append_batch_body

    def failing(self: StoreDriver, *arguments: object, **named: object) -> object:
        nonlocal appended
        appended += 1
        if appended > after:
            raise KeyboardInterrupt
        return append(self, *arguments, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(StoreDriver, "append_batch_body", failing)
        with pytest.raises(KeyboardInterrupt):
            commit(options, 0, files)
    assert 0 < len(stored_bodies(root)) < 200
    # The batch runs again, with its rows in another order: the decision of the first time stands.
    again = [stage(options, 0, 0, bodies(reversed(numbered(0, 200))), attempt="1")]
    commit(options, 0, again)
    assert stored_bodies(root) == numbered(0, 200)
    assert left_over(root) == ["done"]
    assert_sound(root)


def test_a_crash_before_the_mark_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "store"
    options = options_for(root)
    with monkeypatch.context() as patch:
        patch.setattr(sink_store, "mark_done", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            commit(options, 0, [stage(options, 0, 0, bodies(numbered(0, 90)))])
    assert stored_bodies(root) == numbered(0, 90)
    # Another write finishes what is decided before its own.
    commit(options, 1, [stage(options, 1, 0, bodies(numbered(90, 100)))])
    assert stored_bodies(root) == numbered(0, 100)
    assert left_over(root) == ["done"]


def test_delayed_rows_wait_in_the_schedule_topic_and_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    options = options_for(root)
    batch = pa.record_batch({"body": pa.array(["a", "b", "c"]), "delayLevel": pa.array([0, 3, 3])})
    with monkeypatch.context() as patch:
        patch.setattr(sink_store, "mark_done", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            commit(options, 0, [stage(options, 0, 0, batch)])
    sink_store.take_in(options)
    assert stored_bodies(root) == ["a"]
    assert stored_bodies(root, "SCHEDULE_TOPIC_XXXX") == ["b", "c"]
    assert_sound(root)


def test_rows_go_into_a_store_that_rocketmq_wrote_with_its_own_geometry(tmp_path: Path) -> None:
    golden = open_golden("rmq55-clean", tmp_path)
    with StoreReader.open(golden.root) as reader:
        before = sum(1 for _ in reader.records())
        size = reader.log.run.file_size
    geometry = {name: golden.options[name] for name in ("maxHashSlotNum", "maxIndexNum")}
    options = parse_sink_options({"path": str(golden.root), "topic": "NewTopic", **geometry})
    sink_store.check_store(options)
    commit(options, 0, [stage(options, 0, 0, bodies(numbered(0, 40)))])
    with StoreReader.open(golden.root) as reader:
        assert sum(1 for _ in reader.records()) == before + 40
        assert reader.log.run.file_size == size
    assert stored_bodies(golden.root, "NewTopic") == numbered(0, 40)


def test_a_store_in_use_is_refused_before_anything_is_staged(tmp_path: Path) -> None:
    options = options_for(tmp_path / "store")
    commit(options, 0, [stage(options, 0, 0, bodies(["a"]))])
    with MessageStore.open(tmp_path / "store", sink_store.store_options(options)) as store:
        store.put(Message("T", b"b"))
        with pytest.raises(UnavailableError, match="nameServer instead of path"):
            sink_store.check_store(options)


def test_places_that_are_no_store_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    for place, words in ((tmp_path / "file", "is a file"), (tmp_path / "full", "holds other things")):
        with pytest.raises(InvalidArgumentError, match=words):
            sink_store.check_store(options_for(place))
    with pytest.raises(InvalidArgumentError, match="neither"):
        sink_store.check_store(options_for(tmp_path / "a" / "b"))
    sink_store.check_store(options_for(tmp_path / "new"))


def test_store_that_could_not_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path))  # root may write anywhere
    with pytest.raises(InvalidArgumentError, match=f"the store {tmp_path}/new cannot be made: {tmp_path} cannot be"):
        sink_store.check_store(options_for(tmp_path / "new"))


def test_a_damaged_or_absent_staged_file_is_told(tmp_path: Path) -> None:
    options = options_for(tmp_path / "store")
    file = stage(options, 0, 0, bodies(numbered(0, 30)))
    path = Path(staging.batch_folder(str(tmp_path / "store"), stem_of("write", WRITE), 0)) / file.name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match="damaged"):
        list(staging.read_parcels(str(path), file.size))
    os.truncate(path, 20)
    with pytest.raises(CorruptionError, match="too early"):
        list(staging.read_parcels(str(path), file.size))
    path.unlink()
    with pytest.raises(NotFoundError, match="share"):
        list(staging.read_parcels(str(path), file.size))


def test_a_failed_job_leaves_nothing_behind(tmp_path: Path) -> None:
    options = options_for(tmp_path / "store")
    stage(options, 0, 0, bodies(numbered(0, 30)))
    stage(options, 1, 0, bodies(numbered(0, 30)))
    staging.remove_batch(str(tmp_path / "store"), stem_of("write", WRITE), 1, undecided_only=True)
    assert os.listdir(tmp_path / "store") == []


def test_a_queue_a_topic_does_not_have_is_refused_before_anything_is_decided(tmp_path: Path) -> None:
    options = options_for(tmp_path / "store", queues="2")
    wrong = pa.RecordBatch.from_pydict({"body": ["x"], "queueId": pa.array([2], pa.int32())})
    with pytest.raises(InvalidArgumentError, match="has no queue 2; it has 2"):
        stage(options, 0, 0, wrong)
    right = pa.RecordBatch.from_pydict({"body": ["x"], "queueId": pa.array([1], pa.int32())})
    commit(options, 1, [stage(options, 1, 0, right)])  # what failed is in nobody's way
    assert stored_bodies(tmp_path / "store") == ["x"]
