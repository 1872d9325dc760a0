"""A deleted topic stays deleted: whoever builds, checks, queries or copies from the log knows it, in plain code and in
kernels; a topic of the same name begins at 0. What a crash does to a deletion: test_deleted_topics_crash.py."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from flaremq.errors import StoreIOError, UnavailableError
from flaremq.message.message import Message
from flaremq.storage.at_rest.outlook import outlook_of
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.dispatch.deleted_topics import DeletedTopics, pack_deletions, parse_deletions
from flaremq.storage.dispatch.view_writer import ViewWriter
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.log.put_lock import PutLock
from flaremq.storage.queue.batch_consume_queue import BatchUnit
from flaremq.storage.rescue.rescue import rescue_store
from flaremq.storage.verify.finding import Severity
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.driven_store import BORN_HOST, kernels, open_driven, show
from tests.support.readable import readable_dispatch, readable_walk
from tests.support.store_lab import TOPIC, StoreLab, all_bodies, bodies

AGAIN = "again"
STATE_FILES = ("flaremq.offsets", "flaremq.queues", "checkpoint")
NEW = [b"new %d" % number for number in range(25)]


def delete(lab: StoreLab, *topics: str) -> int:
    return lab.store.delete_topics(topics)


def deleted_file(lab: StoreLab) -> Path:
    return lab.root / "flaremq.deleted"


def put_old(lab: StoreLab) -> None:
    """The topic's first life, two queues of several files, among messages of another topic."""
    for number in range(45):
        lab.put(b"old %d" % number, AGAIN, keys=["key", f"old{number}"])
        lab.put(b"old", AGAIN, queue_id=1)
        lab.put(b"other %d" % number, keys=["key"])


def put_new(lab: StoreLab) -> None:
    for body in NEW:
        lab.put(body, AGAIN, keys=["key", body.decode().replace(" ", "")])
        lab.put(b"other", keys=["key"])


def put_both_lives(lab: StoreLab) -> None:
    put_old(lab)
    assert delete(lab, AGAIN) == 2
    put_new(lab)


def verdicts(lab: StoreLab) -> list[tuple[list[Any], Any]]:
    """What the check says of each record by itself, and of many at once."""
    said = []
    for readable in (True, False):
        with StoreReader.open(lab.root) as reader, readable_walk(readable):
            verifier = StoreVerifier(reader)
            said.append((list(verifier.findings()), verifier.summary))
    return said


@pytest.fixture(params=["readable", "core"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Dispatch goes record by record by the readable rules, or through the core."""
    with readable_dispatch(request.param == "readable"):
        yield str(request.param)


# The file


def test_file_is_the_deletions_twice_with_a_checksum_each() -> None:
    text = b'{"topics": {"a": 1099511627776, "b": 7}}'
    data = pack_deletions({"b": 7, "a": 2**40})
    assert data == (b"%08x " % crc32(text) + text + b"\n") * 2
    assert parse_deletions(data) == ({"a": 2**40, "b": 7}, 2)


def test_one_wrong_bit_costs_one_copy_and_nothing_else() -> None:
    ends = {"orders": 12345}
    data = pack_deletions(ends)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        is_line_break = data[bit // 8 :][:1] == b"\n"  # for people, and not covered
        assert parse_deletions(bytes(flipped)) == (ends, 2 if is_line_break else 1), f"bit {bit}"


@pytest.mark.parametrize("data", [b"", b"x", b"00000000 {}\n" * 2, pack_deletions({"t": 1})[:-7]])
def test_file_without_a_whole_copy_is_put_aside_loudly(
    data: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "flaremq.deleted"
    path.write_bytes(data)
    assert DeletedTopics.peek(LocalFileSystem(), str(path)).whole_copies == 0
    assert not DeletedTopics.load(LocalFileSystem(), str(path))
    assert (tmp_path / "flaremq.deleted.damaged").read_bytes() == data and not path.exists()
    (record,) = caplog.records
    assert record.levelname == "ERROR" and "may come back" in record.getMessage()


def test_store_without_deletions_has_no_file(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    assert delete(lab) == delete(lab, "../etc", "") == 0
    assert not deleted_file(lab).exists()


def test_damaged_copy_is_noticed_by_verify_and_mended_by_opening(lab: StoreLab) -> None:
    lab.open()
    put_both_lives(lab)
    lab.close()
    whole = deleted_file(lab).read_bytes()
    lab.overwrite(deleted_file(lab), 20, b"#")
    assert [finding.kind for finding in verdicts(lab)[0][0]] == ["deletions-damaged"]
    lab.open()
    assert deleted_file(lab).read_bytes() == whole
    assert all_bodies(lab.store, AGAIN) == NEW


def test_damaged_list_does_not_keep_the_store_shut_and_standing_queues_stay(lab: StoreLab) -> None:
    lab.open()
    put_both_lives(lab)
    lab.close()
    lab.broken_on_purpose = True
    deleted_file(lab).write_bytes(b"damaged")
    lab.open()
    assert all_bodies(lab.store, AGAIN) == NEW


def test_unreadable_list_is_a_finding_of_verify_and_keeps_the_store_shut(lab: StoreLab) -> None:
    lab.open()
    put_both_lives(lab)
    lab.close()
    lab.broken_on_purpose = True
    deleted_file(lab).unlink()
    deleted_file(lab).mkdir()  # what no disk error could do better
    assert ("deletions-damaged", Severity.DAMAGE) in [(found.kind, found.severity) for found in verdicts(lab)[0][0]]
    with pytest.raises(StoreIOError):
        lab.open()
    deleted_file(lab).rmdir()
    lab.open()


# The topic's next life


def test_topic_made_again_starts_at_zero_and_store_is_sound(lab: StoreLab, way: str) -> None:
    lab.open()
    put_old(lab)
    delete(lab, AGAIN)
    assert (lab.store.max_offset(AGAIN, 0), lab.store.queues()) == (0, [(TOPIC, 0)])
    put_new(lab)
    assert all_bodies(lab.store, AGAIN) == NEW
    assert lab.store.check() == []
    lab.close()
    plain, compiled = verdicts(lab)
    assert plain == compiled
    assert plain[0] == []


def test_rebuilt_queues_and_index_are_those_of_the_living_store(lab: StoreLab, way: str) -> None:
    lab.open()
    put_both_lives(lab)
    lab.close()
    queues, index = lab.queue_bytes(), lab.index_bytes()
    for folder in ("consumequeue", "index"):
        shutil.rmtree(lab.root / folder)
    lab.open()
    assert all_bodies(lab.store, AGAIN) == NEW
    lab.close()
    assert lab.queue_bytes() == queues
    assert [data[40:] for data in lab.index_bytes()] == [data[40:] for data in index]


def test_recovery_from_an_older_checkpoint_does_not_bring_old_messages_back(lab: StoreLab, way: str) -> None:
    lab.open()
    put_old(lab)
    lab.store.tick()
    old = {name: (lab.root / name).read_bytes() for name in STATE_FILES}
    delete(lab, AGAIN)
    put_new(lab)
    lab.store.tick()
    queues = lab.queue_bytes()
    lab.kill()
    for name, data in old.items():
        (lab.root / name).write_bytes(data)
    lab.open()
    assert lab.store.recovery.started_at == lab.store._engine.parts.deleted.end_of(AGAIN)
    assert all_bodies(lab.store, AGAIN) == NEW
    assert lab.queue_bytes() == queues


def test_recovery_without_any_state_of_ours_does_not_bring_old_messages_back(lab: StoreLab, way: str) -> None:
    lab.open()
    put_both_lives(lab)
    queues = lab.queue_bytes()
    lab.kill()
    for name in STATE_FILES:
        (lab.root / name).unlink()
    lab.open()
    assert all_bodies(lab.store, AGAIN) == NEW
    assert lab.queue_bytes() == queues


def test_topic_can_be_deleted_again(lab: StoreLab) -> None:
    lab.open()
    put_both_lives(lab)
    assert delete(lab, AGAIN) == 1
    assert delete(lab, AGAIN) == 0
    assert lab.store.get(AGAIN, 0, 0).messages == []
    lab.put(b"third", AGAIN)
    lab.kill_and_open()
    assert all_bodies(lab.store, AGAIN) == [b"third"]


def test_queries_never_return_a_message_of_the_earlier_life(lab: StoreLab, way: str) -> None:
    lab.open()
    put_old(lab)
    assert len(lab.store.query(AGAIN, "key", 64)) == 45
    delete(lab, AGAIN)
    assert lab.store.query(AGAIN, "key", 64) == lab.store.query(AGAIN, "old3") == []
    put_new(lab)
    assert bodies(lab.store.query(AGAIN, "key", 64)) == NEW
    found = lab.store.query_many(AGAIN, ["key", "old3", "new3"], 64)
    assert [bodies(messages) for messages in found] == [NEW, [], [b"new 3"]]
    assert bodies(lab.store.query_many(AGAIN, ["key"], 3)[0]) == bodies(lab.store.query(AGAIN, "key", 3)) == NEW[-3:]
    assert len(lab.store.query(TOPIC, "key", 64)) == 64
    lab.close()
    with StoreReader.open(lab.root) as reader:
        assert bodies(reader.query(AGAIN, "key", 64)) == NEW
        assert reader.query(AGAIN, "old3") == []


def test_unit_is_repaired_from_the_new_life_of_its_topic(lab: StoreLab) -> None:
    lab.open()
    put_both_lives(lab)
    lab.close()
    lab.overwrite(lab.queue_files(AGAIN)[0], 0, (7).to_bytes(8, "big"))
    lab.open()
    assert bodies(lab.store.get(AGAIN, 0, 0, 1).messages) == NEW[:1]
    assert lab.store.statistics()["repairedUnits"] == 1


def test_deletion_is_forgotten_once_the_log_has_passed_it(lab: StoreLab) -> None:
    lab.open()
    put_both_lives(lab)
    lab.fill_files(8)
    delete(lab, "later")
    lab.put()
    assert lab.store.delete_expired(force=True) > 1
    assert lab.store._engine.parts.deleted.end_of(AGAIN) == 0
    assert parse_deletions(deleted_file(lab).read_bytes())[0].keys() == {"later"}
    lab.fill_files(len(lab.log_files()) + 2)
    lab.store.delete_expired(force=True)
    assert not deleted_file(lab).exists()
    lab.reopen()
    assert not lab.store._engine.parts.deleted


def test_without_deletions_dispatch_asks_nothing(lab: StoreLab, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open()
    put_both_lives(lab)

    def asked(*_: object) -> None:
        raise AssertionError("a record behind every deletion was looked up")

    monkeypatch.setattr(DeletedTopics, "hides", asked)
    monkeypatch.setattr(ViewWriter, "_hidden_bytes", asked)
    put_new(lab)
    assert len(all_bodies(lab.store, AGAIN)) == 2 * len(NEW)


# Other queues, other readers


def test_batch_and_ext_queues_go_with_their_topic(lab: StoreLab) -> None:
    lab.open()
    put = lab.put(b"old", AGAIN)
    queues = lab.store._queues
    unit = BatchUnit(put.physical_offset, put.size, 0, put.store_timestamp, 0, 1)
    queues.get_or_create_batch(AGAIN, 7).append(unit)
    (lab.root / "consumequeue_ext" / AGAIN / "0").mkdir(parents=True)
    (lab.root / "consumequeue_ext" / AGAIN / "0" / f"{0:020d}").write_bytes(bytes(100))
    lab.kill_and_open()
    assert lab.store._queues.places == {(AGAIN, 0), (AGAIN, 7)}
    assert delete(lab, AGAIN) == 2
    assert lab.store._queues.places == set()
    assert [path for path in lab.root.glob(f"*/{AGAIN}")] == []
    assert lab.put(b"new", AGAIN, queue_id=7).queue_offset == 0
    lab.kill_and_open()
    assert (AGAIN, 7) in lab.store._queues.simple  # and no longer a queue of batches


def test_queues_another_broker_brought_back_are_built_anew(lab: StoreLab) -> None:
    lab.open()
    put_old(lab)
    lab.store.tick()
    shutil.copytree(lab.root / "consumequeue" / AGAIN, lab.root / "kept")
    delete(lab, AGAIN)
    lab.store._writer.queue_offsets[AGAIN][0] = 45  # a writer that goes on counting
    new = lab.put(b"new", AGAIN)
    lab.close()
    shutil.rmtree(lab.root / "consumequeue" / AGAIN)
    shutil.move(lab.root / "kept", lab.root / "consumequeue" / AGAIN)
    unit = new.physical_offset.to_bytes(8, "big") + new.size.to_bytes(4, "big") + bytes(8)
    lab.overwrite(lab.queue_files(AGAIN)[2], 5 * 20, unit)
    plain, compiled = verdicts(lab)
    assert plain == compiled
    assert {(finding.kind, finding.severity) for finding in plain[0]} == {("unit-of-deleted-topic", Severity.NOTE)}
    lab.open()
    assert (lab.store.min_offset(AGAIN, 0), all_bodies(lab.store, AGAIN)) == (45, [b"new"])
    assert not lab.store.inspector.has_queue(AGAIN, 1)
    lab.kill_and_open()
    assert all_bodies(lab.store, AGAIN) == [b"new"]


def test_outlook_of_a_killed_store_counts_the_new_life_only(lab: StoreLab) -> None:
    lab.open()
    put_both_lives(lab)
    lab.kill()
    with StoreReader.open(lab.root) as reader:
        outlook = outlook_of(reader)
    assert {place: (span.min_offset, span.max_offset) for place, span in outlook.queues.items()} == {
        (AGAIN, 0): (0, 25),
        (TOPIC, 0): (0, 70),
    }


def test_rescue_leaves_messages_of_the_earlier_life_behind(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    put_both_lives(lab)
    lab.close()
    with StoreReader.open(lab.root) as reader:
        report = rescue_store(reader, str(tmp_path / "new"))
    assert (report.records, report.deleted_records, report.lost_messages) == (95, 90, 0)
    assert report.to_dict()["deletedRecords"] == 90
    assert report.result.healthy
    assert not (tmp_path / "new" / "flaremq.deleted").exists()
    rescued = StoreLab(tmp_path / "new", lab.options)
    rescued.open()
    assert all_bodies(rescued.store, AGAIN) == NEW
    assert rescued.store.queues() == [(AGAIN, 0), (TOPIC, 0)]
    rescued.finish()


def test_rescue_does_not_miss_damaged_records_of_the_earlier_life(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    put_old(lab)
    lab.store.tick()
    shutil.copytree(lab.root / "consumequeue" / AGAIN / "1", lab.root / "kept")
    place = lab.store.inspector.units(AGAIN, 1, 3, 1)[0].physical_offset
    delete(lab, AGAIN)
    put_new(lab)
    lab.close()
    shutil.move(lab.root / "kept", lab.root / "consumequeue" / AGAIN / "1")
    lab.broken_on_purpose = True
    lab.damage_log(place + 88)
    with StoreReader.open(lab.root) as reader:
        report = rescue_store(reader, str(tmp_path / "new"))
    assert (len(report.damaged), report.records, report.deleted_records, report.lost) == (1, 95, 89, {})


# While others work


class _DeletesFirst(PutLock):
    """A log lock behind which, at the first try to take it, a topic has just been deleted."""

    def __init__(self, lab: StoreLab) -> None:
        super().__init__()
        self._lock = lab.store._commit_log.lock
        self._lab: StoreLab | None = lab

    def acquire(self, timeout: float = -1) -> bool:
        lab, self._lab = self._lab, None
        if lab is not None:
            delete(lab, AGAIN)
        return self._lock.acquire(timeout)

    def release(self) -> None:
        self._lock.release()


@pytest.mark.parametrize("put", ["put", "append", "batch"])
def test_put_that_was_waiting_while_its_topic_was_deleted_counts_from_zero(
    lab: StoreLab, put: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = open_driven(lab)
    lab.put_many(5, topic=AGAIN)
    show(driver)
    monkeypatch.setattr(lab.store._commit_log, "lock", _DeletesFirst(lab))
    if put == "append":
        driver.append(AGAIN, 0, b"a", b"", 0, 0, 1, BORN_HOST, 0)
    elif put == "batch":
        assert lab.store.put_batch([Message(AGAIN, b"a")], 0).ok
    else:
        assert lab.store.put(Message(AGAIN, b"a")).ok
    driver.append(AGAIN, 0, b"b", b"", 0, 0, 1, BORN_HOST, 0)
    show(driver)
    assert all_bodies(lab.store, AGAIN) == [b"a", b"b"]


class _NotedLock(PutLock):
    """A lock that tells by its name when it is held."""

    def __init__(self, name: str, held: set[str]) -> None:
        super().__init__()
        self._name = name
        self._all_held = held

    def acquire(self, timeout: float = -1) -> bool:
        taken = super().acquire(timeout)
        self._all_held.add(self._name)
        return taken

    def release(self) -> None:
        self._all_held.discard(self._name)
        super().release()


def test_nobody_dispatches_before_the_queues_are_gone_and_appends_do_not_wait_for_the_disk(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lab.open()
    put_old(lab)
    held: set[str] = set()
    engine = store._engine
    monkeypatch.setattr(engine, "_close_lock", _NotedLock("close", held))
    monkeypatch.setattr(engine.checkpointer, "lock", _NotedLock("checkpoint", held))
    monkeypatch.setattr(engine.dispatch, "lock", _NotedLock("dispatch", held))
    monkeypatch.setattr(store._commit_log, "lock", _NotedLock("log.lock", held))
    seen = []

    class Watched(LocalFileSystem):
        def rename(self, source: str, target: str) -> None:
            if target.endswith("flaremq.deleted"):
                seen.append(("durable", frozenset(held)))
            super().rename(source, target)

        def remove(self, path: str) -> None:
            if AGAIN in path:
                seen.append(("removed", frozenset(held)))
            super().remove(path)

    watched = Watched()
    monkeypatch.setattr(store._engine.parts.deleted, "_filesystem", watched)
    for queue in store._queues.all():
        monkeypatch.setattr(queue.files, "_filesystem", watched)
    delete(lab, AGAIN)
    views = frozenset({"close", "checkpoint", "dispatch"})
    assert seen[0] == ("durable", views)
    assert seen[1:] == [("removed", views)] * 6
    monkeypatch.undo()


class _SentMeanwhile:
    """Messages that come while a deletion is written, one each time."""

    def __init__(self, lab: StoreLab, driver: StoreDriver, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.locked: list[bool] = []
        usual = DeletedTopics.add

        def add(deleted: DeletedTopics, topics: Iterable[str], log_end: int) -> None:
            usual(deleted, topics, log_end)
            locked = lab.store._commit_log.lock.locked()
            self.locked.append(locked)
            if not locked and len(self.locked) <= times:
                driver.append(AGAIN, 0, b"meanwhile", b"", 0, 0, 1, BORN_HOST, 0)

        monkeypatch.setattr(DeletedTopics, "add", add)


@pytest.mark.parametrize(("times", "locked"), [(1, [False] * 2), (2, [False] * 3), (9, [False] * 3 + [True])])
def test_message_that_comes_while_its_topic_is_deleted_goes_with_it(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch, times: int, locked: list[bool]
) -> None:
    driver = open_driven(lab)
    lab.put_many(5, topic=AGAIN)
    show(driver)
    meanwhile = _SentMeanwhile(lab, driver, monkeypatch, times)
    assert delete(lab, AGAIN) == 1
    assert meanwhile.locked == locked, "appends wait only if somebody keeps sending"
    driver.append(AGAIN, 0, b"new", b"", 0, 0, 1, BORN_HOST, 0)
    show(driver)
    assert all_bodies(lab.store, AGAIN) == [b"new"]
    lab.kill_and_open()
    assert all_bodies(lab.store, AGAIN) == [b"new"]
    assert lab.store.check() == []


def test_crash_after_such_a_message_keeps_it_and_hides_the_older_ones(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = open_driven(lab)
    lab.put_many(5, topic=AGAIN)
    show(driver)
    usual = DeletedTopics.add

    class DiedError(Exception):
        pass

    def add(deleted: DeletedTopics, topics: Iterable[str], log_end: int) -> None:
        usual(deleted, topics, log_end)
        driver.append(AGAIN, 0, b"meanwhile", b"", 0, 0, 1, BORN_HOST, 0)
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(DeletedTopics, "add", add)
        with pytest.raises(DiedError):
            delete(lab, AGAIN)
    lab.kill_and_open()
    assert lab.store.min_offset(AGAIN, 0) == 5
    assert bodies(lab.store.get(AGAIN, 0, 5, 10).messages) == [b"meanwhile"]
    assert lab.store.check() == []
    assert lab.put(b"next", AGAIN).queue_offset == 6
    assert delete(lab, AGAIN) == 1
    assert lab.put(b"new", AGAIN).queue_offset == 0
    lab.kill_and_open()
    assert all_bodies(lab.store, AGAIN) == [b"new"]


def test_failure_of_a_later_attempt_stops_writing(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = open_driven(lab)
    lab.put_many(5, topic=AGAIN)
    show(driver)
    usual = DeletedTopics.add
    calls = []

    def add(deleted: DeletedTopics, topics: Iterable[str], log_end: int) -> None:
        calls.append(log_end)
        if len(calls) > 1:
            raise StoreIOError("write", "flaremq.deleted", OSError("no"))
        usual(deleted, topics, log_end)
        driver.append(AGAIN, 0, b"meanwhile", b"", 0, 0, 1, BORN_HOST, 0)

    with monkeypatch.context() as patch:
        patch.setattr(DeletedTopics, "add", add)
        with pytest.raises(StoreIOError):
            delete(lab, AGAIN)
    assert lab.store.health_state.poison is not None
    lab.kill_and_open()
    assert bodies(lab.store.get(AGAIN, 0, 5, 10).messages) == [b"meanwhile"]
    assert lab.store.check() == []


def test_units_that_wait_in_memory_go_too_and_undispatched_messages_never_show(lab: StoreLab) -> None:
    driver = open_driven(lab)
    lab.put_many(5, topic=AGAIN)
    show(driver)
    lab.put_many(3, topic=AGAIN)
    assert delete(lab, AGAIN) == 1
    assert driver.undispatched > 0  # its owner hears of everything that is dispatched
    assert show(driver) == set()
    assert lab.store.queues() == []
    lab.put(b"new", AGAIN)
    assert show(driver) == {(AGAIN, 0)}
    assert all_bodies(lab.store, AGAIN) == [b"new"]


@pytest.mark.parametrize("used", [False, True], ids=["plain", "kernels"])
def test_topic_is_deleted_while_the_owner_of_the_store_appends_and_dispatches(lab: StoreLab, used: bool) -> None:
    driver = open_driven(lab, flush_disk_type="ASYNC_FLUSH")
    stop = threading.Event()
    deletions = []

    def keep_deleting() -> None:
        while not stop.is_set():
            deletions.append(delete(lab, AGAIN))

    with kernels(used):
        thread = threading.Thread(target=keep_deleting)
        thread.start()
        try:
            number = 0
            while len(deletions) < 20 or number < 500 or not any(deletions):
                for queue_id in range(3):
                    assert isinstance(driver.append(AGAIN, queue_id, b"%d" % number, b"", 0, 0, 1, BORN_HOST, 0), tuple)
                driver.append(TOPIC, 0, b"%d" % number, b"", 0, 0, 1, BORN_HOST, 0)
                number += 1
                if number % 7 == 0:
                    driver.dispatch()
        finally:
            stop.set()
            thread.join()
        driver.append(AGAIN, 0, b"last", b"", 0, 0, 1, BORN_HOST, 0)
        show(driver)
    assert all_bodies(lab.store) == [b"%d" % n for n in range(number)]
    shown = {place: all_bodies(lab.store, *place) for place in lab.store.queues()}
    assert shown[AGAIN, 0][-1] == b"last"
    lab.kill_and_open()
    assert {place: all_bodies(lab.store, *place) for place in lab.store.queues()} == shown


def test_topic_is_not_deleted_from_a_closed_store(lab: StoreLab) -> None:
    store = lab.open()
    lab.put()
    lab.close()
    with pytest.raises(UnavailableError):
        store.delete_topics([TOPIC])
    assert not deleted_file(lab).exists()
