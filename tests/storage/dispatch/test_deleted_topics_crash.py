"""Power cuts, kills and failing calls while a topic is deleted, made again and used: it is there whole or gone whole.

The history: a topic of two queues and some files lives beside another one; it is deleted, made again, written to, a
checkpoint is saved. Every call to the disk from the deletion on is a place to crash at, with several outcomes each.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import StoreIOError, UnavailableError
from flaremq.message.message import Message
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.verify.finding import Finding, Severity
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.crash_choices import Chooser, RandomChooser, SubsetChooser
from tests.support.crash_fs import CrashFS, Fault
from tests.support.store_lab import SMALL, all_bodies

ROOT = "/store"
DYING, OTHER = "dying", "other"
# Sealed records: garbage in an unfinished one is told. Queue files of ten units, so that a queue has several.
OPTIONS = replace(SMALL, enabled_append_prop_crc=True, mapped_file_size_consume_queue=200)
OLD = [b"old %d" % number for number in range(25)]
OLD_ASIDE = [b"aside %d" % number for number in range(4)]
NEW = [b"new %d" % number for number in range(12)]
OTHERS = [b"other %d" % number for number in range(6)]
_SUBSET_BITS = 4
_RANDOM_IMAGES = 4


@dataclass
class History:
    """A store on a simulated disk, and what it has answered so far."""

    disk: CrashFS = field(default_factory=CrashFS)
    driven: bool = False
    flush_disk_type: str = "SYNC_FLUSH"
    is_asked: bool = False  # to delete the topic
    is_deleted: bool = False
    put: list[bytes] = field(default_factory=list)  # to the topic made again
    acknowledged: int = 0  # of these

    def open(self) -> MessageStore:
        options = replace(OPTIONS, flush_disk_type=self.flush_disk_type)
        self.store = MessageStore.open(
            ROOT, options, filesystem=self.disk, clock=ManualClock(), threads=False, driven=self.driven
        )
        return self.store

    def put_all(self, topic: str, bodies: list[bytes], queue_id: int = 0) -> None:
        for body in bodies:
            assert self.store.put(Message(topic, body, keys=["key"]), queue_id).ok
            self.store._dispatch.run()

    def live(self) -> None:
        """The topic's first life."""
        self.open()
        self.put_all(DYING, OLD[:20])
        self.put_all(OTHER, OTHERS)
        self.store.tick()
        self.put_all(DYING, OLD_ASIDE, 1)
        self.put_all(DYING, OLD[20:])

    def delete(self) -> None:
        self.is_asked = True
        self.store.delete_topics([DYING])
        self.is_deleted = True

    def live_again(self) -> None:
        for body in NEW:
            self.put.append(body)
            self.put_all(DYING, [body])
            self.acknowledged += 1
            if body == NEW[7]:
                self.store.tick()

    def fork(self, disk: CrashFS) -> History:
        return replace(self, disk=disk, put=list(self.put))


def choosers(disk: CrashFS) -> list[Chooser]:
    questions = disk.questions()
    if questions <= _SUBSET_BITS:
        return [SubsetChooser(bits) for bits in range(1 << questions)]
    few: list[Chooser] = [SubsetChooser(0), SubsetChooser((1 << questions) - 1)]
    return few + [RandomChooser(f"{disk.calls} {seed}") for seed in range(_RANDOM_IMAGES)]


def crash_images(history: History) -> list[History]:
    """What is left after a power cut, or a kill, before every call from the deletion on; each image once."""
    images: list[History] = []
    seen: set[bytes] = set()

    def collect(operation: str, path: str) -> None:
        for after in [*map(history.disk.crash, choosers(history.disk)), history.disk.kill()]:
            answered = (history.is_asked, history.is_deleted, history.acknowledged, len(history.put))
            digest = hashlib.sha256(repr((sorted(after.files().items()), answered)).encode()).digest()
            if digest not in seen:
                seen.add(digest)
                images.append(history.fork(after))

    history.disk.observer = collect
    history.delete()
    history.live_again()
    history.store.close()
    history.disk.observer = None
    collect("", "")
    return images


def check(after: History) -> bool:
    """Open what a crash left and hold it against the history; whether the topic is deleted there."""
    store = after.open()
    stored = {place: all_bodies(store, *place) for place in store.queues()}
    assert stored.pop((OTHER, 0)) == OTHERS
    deleted = after.is_deleted or after.disk.exists(f"{ROOT}/flaremq.deleted")
    if deleted:
        found = stored.pop((DYING, 0), [])
        assert after.is_asked
        assert after.acknowledged <= len(found) and found == after.put[: len(found)]
        assert stored == {}
    else:
        found = OLD
        assert stored == {(DYING, 0): OLD, (DYING, 1): OLD_ASIDE}
        assert after.put == []
    queried = {message.body for message in store.query(DYING, "key", 64)}
    assert queried == (set(found) if deleted else {*OLD, *OLD_ASIDE})
    assert store.check() == []
    # Life goes on, and a second recovery sees the same.
    result = store.put(Message(DYING, b"next"))
    assert (result.ok, result.queue_offset) == (True, len(found))
    store._dispatch.run()
    again = after.fork(after.disk.kill())
    assert all_bodies(again.open(), DYING) == [*found, b"next"]
    return deleted


def worries(filesystem: FileSystem) -> list[Finding]:
    """What a check of the store as it lies there, before anybody opens it, finds beyond notes."""
    geometry = IndexGeometry(OPTIONS.max_hash_slot_num, OPTIONS.max_index_num)
    with StoreReader.open(ROOT, index_geometry=geometry, filesystem=filesystem, lock=False) as reader:
        findings = StoreVerifier(reader).findings()
        return [finding for finding in findings if finding.severity is not Severity.NOTE]


@pytest.mark.slow
@pytest.mark.parametrize("driven", [False, True], ids=["embedded", "driven"])
def test_crash_at_any_call_leaves_the_topic_whole_or_deleted(driven: bool) -> None:
    history = History(driven=driven)
    history.live()
    images = crash_images(history)
    verdicts = []
    for number, image in enumerate(images):
        try:
            verdicts.append(check(image))
        except AssertionError as error:
            raise AssertionError(f"image {number} of {len(images)}") from error
    assert set(verdicts) == {True, False}
    assert history.disk.violations == []


def test_verify_finds_only_notes_in_whatever_a_killed_deletion_leaves() -> None:
    history = History()
    history.live()
    places = 0

    def look(operation: str, path: str) -> None:
        nonlocal places
        places += 1
        assert worries(history.disk.kill()) == []

    history.disk.observer = look
    history.delete()
    assert places > 10


def test_interrupted_deletion_is_finished_by_the_next_start() -> None:
    history = History()
    history.live()
    removed = 0

    def stop_in_the_middle(operation: str, path: str) -> None:
        nonlocal removed
        removed += operation == "remove" and f"/consumequeue/{DYING}/" in path
        if removed == 3:
            history.disk.faults = [Fault(kind="crash", at=history.disk.calls)]

    history.disk.observer = stop_in_the_middle
    with pytest.raises(BaseException, match="call"):
        history.delete()
    left = history.disk.kill()
    assert any(f"/consumequeue/{DYING}/" in path for path in left.files())
    after = history.fork(left)
    after.open()
    assert not any(DYING in path for path in left.files())
    assert not left.exists(f"{ROOT}/consumequeue/{DYING}")
    assert after.store.queues() == [(OTHER, 0)]


class _MiddleRemoved(SubsetChooser):
    """Of everything that is not durable only the removal of the second file of a queue reached the disk."""

    def done(self, operation: str) -> bool:
        return operation == f"remove {ROOT}/consumequeue/{DYING}/0/{200:020d}"


def test_file_of_the_earlier_life_behind_a_removed_one_is_removed_too() -> None:
    history = History()
    history.live()
    history.store.tick()
    images: list[CrashFS] = []

    def cut_power(operation: str, path: str) -> None:
        if operation == "sync directory" and path.endswith(f"/{DYING}/0"):
            images.append(history.disk.crash(_MiddleRemoved(0)))

    history.disk.observer = cut_power
    history.delete()
    left = {path[-20:] for path in images[0].files() if f"/consumequeue/{DYING}/0/" in path}
    assert left == {f"{0:020d}", f"{400:020d}"}
    assert worries(images[0]) == []
    history.fork(images[0]).open()
    assert not any(DYING in path for path in images[0].files())


def test_folders_of_a_deleted_topic_do_not_come_back_after_a_power_cut() -> None:
    """A folder in batchconsumequeue would make a queue of batches of the next one."""
    history = History()
    history.live()
    history.disk.make_directories(f"{ROOT}/batchconsumequeue/{DYING}/0")
    history.store._queues.get_or_create_batch(DYING, 0)
    history.delete()
    after = history.disk.crash(SubsetChooser(0))
    assert [path for path in after._names if DYING in path] == []


def test_dispatch_that_waited_for_a_failed_deletion_writes_nothing() -> None:
    history = History(driven=True)
    history.live()
    store = history.store
    assert store.put(Message(OTHER, b"not dispatched yet")).ok
    history.disk.faults = [Fault(kind="eio", at=0, operations=frozenset({"remove"}))]
    with pytest.raises(StoreIOError):
        history.delete()
    before = store.dispatched_offset
    with store._dispatch.lock:  # whoever asked for it before the deletion failed
        store._dispatch.run_slice(store.max_physical_offset)
    assert store.dispatched_offset == before < store.max_physical_offset


def test_messages_put_where_a_power_cut_took_the_log_away_are_alive() -> None:
    history = History(flush_disk_type="ASYNC_FLUSH")
    history.live()
    history.store.flush()
    durable = history.store.max_physical_offset
    history.put_all(DYING, [b"never durable"])
    images: list[CrashFS] = []

    def cut_power(operation: str, path: str) -> None:
        if operation == "remove" and "/consumequeue/" in path and not images:
            images.append(history.disk.crash(SubsetChooser(0)))

    history.disk.observer = cut_power
    history.delete()
    assert history.store._engine.parts.deleted.end_of(DYING) > durable
    after = history.fork(images[0])
    store = after.open()
    assert store._engine.parts.deleted.end_of(DYING) == store.max_physical_offset == durable
    after.put_all(DYING, [b"a", b"b"])
    assert all_bodies(store, DYING) == [b"a", b"b"]
    again = after.fork(after.disk.kill())
    assert all_bodies(again.open(), DYING) == [b"a", b"b"]
    assert again.store.check() == []


@pytest.mark.parametrize("kind", ["eio", "enospc"])
def test_failing_call_leaves_the_topic_whole_or_stops_the_store(kind: str) -> None:
    """One failing call at a time, every one of the deletion: no message is ever lost to it."""
    counting = History()
    counting.live()
    before = counting.disk.calls
    counting.delete()
    outcomes = set()
    for at in range(before + 1, counting.disk.calls + 1):
        history = History()
        history.live()
        history.disk.faults = [Fault(kind=kind, at=at)]  # type: ignore[arg-type]
        try:
            history.delete()
        except (StoreIOError, UnavailableError):
            pass
        result = history.store.put(Message(DYING, b"after", keys=["key"]))
        if history.is_deleted:
            history.put.append(b"after")
            history.acknowledged = 1
            assert (result.ok, result.queue_offset) == (True, 0)
            assert check(history.fork(history.disk.kill()))
            outcomes.add("deleted")
        elif result.ok:
            assert result.queue_offset == len(OLD)
            again = history.fork(history.disk.kill())
            assert all_bodies(again.open(), DYING) == [*OLD, b"after"]
            assert all_bodies(again.store, DYING, 1) == OLD_ASIDE
            outcomes.add("whole")
        else:
            check(history.fork(history.disk.kill()))
            outcomes.add("stopped")
        history.store.abandon()
    assert outcomes >= ({"deleted", "whole", "stopped"} if kind == "eio" else {"deleted", "whole"})
