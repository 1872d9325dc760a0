"""A replica's log: the master's bytes, all or nothing, in files and queues that become the master's."""

from __future__ import annotations

import errno
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.message.message import Message
from flaremq.storage.log.replica_append import ReplicaAppender, _Stretch
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.runtime.health import RunningFlag
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_choices import SubsetChooser
from tests.support.crash_fs import CrashFS, Fault
from tests.support.driven_store import DrivenStore, open_driven, show
from tests.support.golden import golden_names, open_golden
from tests.support.replica_lab import Log, feed, log_of
from tests.support.store_lab import LOG_FILE, SMALL, TOPIC, MeasuredFileSystem, StoreLab, all_bodies, eventually


def filled(lab: StoreLab, files: int = 2) -> Log:
    """A closed store of some files with tags, keys, delays and several queues; its log."""
    store = lab.open()
    chance = random.Random(7)
    number = 0
    while len(store._commit_log.files.files) <= files:
        lab.put(
            chance.randbytes(chance.randrange(900)),
            topic=chance.choice([TOPIC, "payments"]),
            queue_id=chance.randrange(3),
            keys=[f"k{number}"],
            tags=chance.choice(["A", "B", None]),
            delay_level=number % 11 == 5,
        )
        number += 1
    lab.put(b"the last one")
    lab.close()
    driven = open_driven(lab)
    log = log_of(driven)
    lab.close()
    return log


@pytest.fixture
def master(tmp_path: Path) -> StoreLab:
    return StoreLab(tmp_path / "master")


def replica_of(lab: StoreLab, **changes: object) -> DrivenStore:
    return open_driven(lab, broker_role="SLAVE", **changes)


@pytest.mark.parametrize("records_max", [1, 3, 1000])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_log_queues_and_index_become_the_masters(lab: StoreLab, master: StoreLab, records_max: int, flush: str) -> None:
    log = filled(master)
    replica = replica_of(lab, flush_disk_type=flush)
    feed(replica, log, records_max=records_max)
    assert replica.appended == log.end
    show(replica)
    lab.close()
    assert lab.log_bytes() == master.log_bytes()
    assert lab.queue_bytes() == master.queue_bytes()
    assert lab.index_bytes() == master.index_bytes()


@pytest.mark.parametrize("name", golden_names())
def test_the_log_of_a_real_master_becomes_the_same_files(tmp_path: Path, name: str) -> None:
    golden = open_golden(name, tmp_path / "golden")
    options = StoreOptions.from_properties(golden.options)
    with MessageStore.open(golden.root, options, threads=False, driven=True) as store:
        log = log_of(store.driver())
        queues = {key: (store.min_offset(*key), store.max_offset(*key)) for key in store.queues()}
        messages = {
            key: [bytes(m.record) for m in store.get(*key, first, 32).messages] for key, (first, _) in queues.items()
        }
    copied = StoreOptions.from_properties(
        {k: v for k, v in golden.options.items() if not k.startswith(("storePath", "readOnly"))}
        | {"brokerRole": "SLAVE"}
    )
    root = tmp_path / "replica"
    with MessageStore.open(root, copied, threads=False, driven=True) as store:
        replica = store.driver()
        feed(replica, log, records_max=50)
        show(replica)  # type: ignore[arg-type]
        assert replica.appended == log.end
        for key, (first, _) in queues.items():
            if log.start == 0:  # else what retention took is in no queue of the replica
                assert (store.min_offset(*key), store.max_offset(*key)) == queues[key]
            found = store.get(*key, max(first, store.min_offset(*key)), 32).messages
            if log.start == 0:
                assert [bytes(m.record) for m in found] == messages[key]
    written = {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}
    for name, content in written.items():
        length = min(max(log.end - int(name), 0), len(content))
        assert content[:length] == log.piece(int(name), int(name) + length)
        assert not content[length:].strip(b"\0")


def test_a_replica_takes_no_messages_and_a_master_no_log(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    replica = replica_of(lab)
    feed(replica, log)
    refused = replica.store.put(Message(TOPIC, b"mine"))
    assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    replica.become_writable()
    with pytest.raises(UnavailableError, match="no replica"):
        replica.append_replica(log.end, b"")
    assert replica.store.put(Message(TOPIC, b"mine")).ok


def test_a_piece_for_another_place_changes_nothing(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    replica = replica_of(lab)
    feed(replica, log)
    end = replica.appended
    for offset in (0, end - 1, end + 1):
        with pytest.raises(InvalidArgumentError, match=f"the log ends at {end}"):
            replica.append_replica(offset, b"x")
    assert replica.appended == end


def test_bytes_that_are_no_whole_records_change_nothing(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    first, second = log.ends()[:2]
    replica = replica_of(lab)
    whole = log.piece(0, second)
    for wrong in (whole[:-1], whole + b"\0", log.piece(first, second), b"\0" * 100, whole[:first] + b"\0" * 50):
        with pytest.raises(InvalidArgumentError, match="no whole record"):
            replica.append_replica(0, wrong)
    assert replica.appended == 0
    assert replica.append_replica(0, whole) == second


def test_a_filler_that_does_not_reach_the_end_of_its_file_is_refused(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    end = next(end for end in log.ends() if end % LOG_FILE == 0)
    start = log.ends()[log.ends().index(end) - 1]
    replica = replica_of(lab)
    replica.append_replica(0, log.piece(0, start))
    for part in (log.piece(start, start + 8), log.piece(start, end - 1)):
        with pytest.raises(InvalidArgumentError, match="no whole record"):
            replica.append_replica(start, part)
    assert replica.append_replica(start, log.piece(start, end)) == end
    assert not replica.undispatched or show(replica) is not None
    assert replica.undispatched == 0, "a filler at the end is not waited for"


def test_the_clock_of_the_master_is_kept(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    replica = replica_of(lab)
    feed(replica, log)
    replica.become_writable()
    lab.clock.jump(-100_000)
    put = replica.store.put(Message(TOPIC, b"mine"))
    assert put.store_timestamp >= master.clock.now_ms()


def test_queue_offsets_go_on_behind_the_masters(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    replica = replica_of(lab)
    feed(replica, log)  # nothing of it is durable or shown yet
    replica.confirm(log.start)
    replica.become_writable()
    assert all_bodies(replica.store) == []
    result = replica.store.put(Message(TOPIC, b"mine"))
    replica.confirm(None)
    show(replica)
    with master.open() as old:
        assert result.queue_offset == old.max_offset(TOPIC, 0)
    assert all_bodies(replica.store)[-1] == b"mine"


def test_a_master_becomes_a_replica_and_takes_the_others_log(lab: StoreLab, master: StoreLab) -> None:
    one = open_driven(lab)
    assert one.store.put(Message(TOPIC, b"first")).ok
    one.become_replica()
    assert not one.store.put(Message(TOPIC, b"refused")).ok
    two = replica_of(master)
    feed(two, log_of(one))
    two.become_writable()
    assert two.store.put(Message(TOPIC, b"second")).ok
    feed(one, log_of(two))
    show(one)
    assert all_bodies(one.store) == [b"first", b"second"]
    master.close()


def test_a_master_with_a_transient_pool_can_become_a_replica(lab: StoreLab, master: StoreLab) -> None:
    one = open_driven(lab, transient_store_pool_enable=True, transient_store_pool_size=2, flush_disk_type="ASYNC_FLUSH")
    assert one.store.put(Message(TOPIC, b"first")).ok
    one.become_replica()
    log = log_of(one)
    assert log.end == one.appended
    two = replica_of(master)
    feed(two, log)
    two.become_writable()
    for _ in range(20):
        assert two.store.put(Message(TOPIC, b"x" * 2000)).ok
    feed(one, log_of(two), records_max=3)
    show(one)
    assert len(all_bodies(one.store)) == 21
    master.close()


def test_an_empty_replica_begins_where_its_master_does(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master, files=3)
    late = Log(LOG_FILE, log.piece(LOG_FILE, log.end), LOG_FILE)
    replica = replica_of(lab)
    with pytest.raises(InvalidArgumentError, match="cannot begin at 5"):
        replica.begin_at(5)
    feed(replica, late, records_max=5)
    show(replica)
    assert replica.min_offset == LOG_FILE
    with master.open() as whole:
        assert replica.store.max_offset(TOPIC, 1) == whole.max_offset(TOPIC, 1)
        first = replica.store.min_offset(TOPIC, 1)
        assert first > 0
        assert all_bodies(replica.store, TOPIC, 1) == all_bodies(whole, TOPIC, 1)[first:]
    with pytest.raises(InvalidArgumentError, match="not empty"):
        replica.begin_at(replica.appended // LOG_FILE * LOG_FILE + LOG_FILE)
    lab.close()
    assert lab.log_bytes() == master.log_bytes()[LOG_FILE:]


def test_a_replica_that_begins_late_survives_a_kill_at_any_time(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master, files=3)
    late = Log(LOG_FILE, log.piece(LOG_FILE, log.end), LOG_FILE)
    replica = replica_of(lab)
    replica.begin_at(LOG_FILE)
    lab.kill()
    replica = replica_of(lab)
    assert replica.is_empty
    feed(replica, late)
    lab.kill()
    replica = replica_of(lab)
    assert (replica.min_offset, replica.appended) == (LOG_FILE, log.end)
    lab.close()


def test_queues_of_a_replica_that_begins_late_are_whole_after_a_kill(lab: StoreLab, master: StoreLab) -> None:
    """Each of them begins far behind 0, in files that the kill leaves without a unit that counts."""
    log = filled(master, files=20)
    start = 18 * LOG_FILE
    late = Log(start, log.piece(start, log.end), LOG_FILE)
    replica = replica_of(lab, mapped_file_size_consume_queue=20_000)
    feed(replica, late)
    show(replica)
    firsts = {queue_id: replica.store.min_offset(TOPIC, queue_id) for queue_id in range(3)}
    assert min(firsts.values()) > 16, "else nothing is tested"
    lab.kill()
    replica = replica_of(lab, mapped_file_size_consume_queue=20_000)
    show(replica)
    with master.open() as whole:
        for queue_id, first in firsts.items():
            assert replica.store.min_offset(TOPIC, queue_id) == first
            assert all_bodies(replica.store, TOPIC, queue_id) == all_bodies(whole, TOPIC, queue_id)[first:]
    lab.close()


def test_no_space_leaves_the_log_as_it_was(master: StoreLab) -> None:
    log = filled(master, files=4)
    for at in range(1, 30):
        filesystem = CrashFS()
        options = replace(SMALL, broker_role="SLAVE")
        store = MessageStore.open("/s", options, filesystem=filesystem, clock=ManualClock(), threads=False, driven=True)
        driver = store.driver()
        driver.append_replica(0, log.piece(0, log.ends()[0]))
        end, before = driver.appended, filesystem.files()
        filesystem.faults = [Fault(kind="enospc", at=filesystem.calls + at, forever=True)]
        try:
            driver.append_replica(end, log.piece(end, log.end))
        except StoreIOError as error:
            assert error.errno == errno.ENOSPC
        else:
            return
        filesystem.faults = []
        assert driver.appended == end
        assert filesystem.files() == before, "files that were made are gone again"
        driver.append_replica(end, log.piece(end, log.end))
        assert driver.appended == log.end
        store.close()
    raise AssertionError("the piece needed more than thirty calls")


def test_what_a_failed_write_left_behind_the_end_does_not_come_back_after_a_power_cut(master: StoreLab) -> None:
    log = filled(master, files=1)
    filesystem = CrashFS()
    options = replace(SMALL, broker_role="SLAVE")
    store = MessageStore.open("/s", options, filesystem=filesystem, clock=ManualClock(), threads=False, driven=True)
    driver = store.driver()
    driver.append_replica(0, log.piece(0, log.ends()[0]))
    driver.sync()
    failed = max(end for end in log.ends() if end < LOG_FILE)
    filesystem.faults = [Fault(kind="eio", at=filesystem.calls + 1, operations=frozenset({"write"}))]
    with pytest.raises(StoreIOError):
        driver.append_replica(driver.appended, log.piece(driver.appended, failed))
    path = f"/s/commitlog/{0:020d}"
    node = filesystem._inode("open", path)
    node.durable = node.durable[: failed - 8] + b"a record" + node.durable[failed:]  # it got there nevertheless
    driver.append_replica(driver.appended, log.piece(driver.appended, log.ends()[1]))
    driver.sync()
    assert filesystem.crash(SubsetChooser(0)).files()[path][failed - 8 : failed] == bytes(8)
    store.close()


class FileInSync:
    """A file that cannot be written, and that a sync takes just before zeros are put where that was tried."""

    def __init__(self) -> None:
        self.is_doubtful = False
        self.buffer = self

    def file(self) -> FileInSync:
        return self

    def write_at(self, at: int, data: memoryview) -> None:
        raise StoreIOError("write", "log", OSError(errno.EIO, "Input/output error"))

    def __setitem__(self, place: slice, data: bytes) -> None:
        self.is_doubtful = False


def test_a_sync_during_a_failed_write_does_not_take_the_zeros_for_synced() -> None:
    file, log = FileInSync(), Mock()
    log.current = file
    with pytest.raises(StoreIOError):
        ReplicaAppender(log)._write([_Stretch(file, 0, memoryview(b"data"))])  # type: ignore[arg-type]
    assert file.is_doubtful


def test_a_full_disk_stops_a_replica(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    lab.filesystem = filesystem = MeasuredFileSystem()
    replica = replica_of(lab)
    filesystem.used = 0.97
    replica.store._engine.retention.check_disk()
    with pytest.raises(StoreIOError, match="97% full") as caught:
        feed(replica, log)
    assert caught.value.errno == errno.ENOSPC
    filesystem.used = 0.1
    replica.store._engine.retention.check_disk()
    feed(replica, log)
    assert replica.store.health == RunningFlag.NOT_WRITABLE


def test_nothing_is_appended_once_the_store_is_closed(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    replica = replica_of(lab)
    lab.close()
    with pytest.raises(UnavailableError, match="closed"):
        replica.append_replica(0, log.data)
    with pytest.raises(UnavailableError, match="closed"):
        replica.become_writable()


def test_a_view_of_the_log_ends_with_its_file_and_the_limit(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    driver = open_driven(master)
    assert driver.transfer_view(100, log.end, 50) == log.data[100:150]
    assert driver.transfer_view(100, 120, 50) == log.data[100:120]
    assert driver.transfer_view(LOG_FILE - 10, log.end, 50) == log.data[LOG_FILE - 10 : LOG_FILE]
    assert driver.transfer_view(log.end, log.end + 100, 50) is None
    assert driver.transfer_view(log.end - 10, log.end + 100, 50) == log.data[-10:]
    master.close()


def test_a_file_being_transferred_outlives_its_deletion(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master)
    driver = open_driven(master)
    show(driver)
    with driver.transfer_file(100) as file:  # type: ignore[union-attr]
        view = driver.transfer_view(100, log.end, 1 << 20)
        assert driver.store.delete_expired(force=True) == 2
        assert driver.transfer_file(100) is None
        assert (file.file_offset, file.length) == (100, LOG_FILE - 100)
        with open(file.fileno(), "rb", closefd=False) as content:
            content.seek(file.file_offset)
            assert content.read(file.length) == log.data[100:LOG_FILE] == view
        file.is_resident(0, LOG_FILE)
        file.forget(0, LOG_FILE)
    master.close()


def test_a_replica_follows_a_busy_master_beside_its_own_readers(tmp_path: Path) -> None:
    """Threads: the master is written to, the replica appends, syncs, dispatches and is read, all at once."""
    options = replace(SMALL, flush_disk_type="ASYNC_FLUSH")
    master = MessageStore.open(tmp_path / "m", options, driven=True)
    replica = MessageStore.open(tmp_path / "r", replace(options, broker_role="SLAVE"), driven=True)
    source, follower = master.driver(), replica.driver()
    count, done, failures = 600, threading.Event(), []

    def run(work: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                while not done.is_set():
                    work()
            except BaseException as error:
                failures.append(error)
                done.set()

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def copy() -> None:
        view = source.transfer_view(follower.appended, source.appended, 1 << 20)
        if view is not None:
            follower.append_replica(follower.appended, view)

    def sync() -> None:
        follower.sync()
        follower.dispatch()

    def read() -> None:
        end = replica.max_offset(TOPIC, 0)
        found = replica.get(TOPIC, 0, max(end - 5, 0), 5)
        assert len(found.messages) >= min(end, 1)  # a get ends with its queue file

    threads = [run(copy), run(sync), run(read)]
    for number in range(count):
        assert master.put(Message(TOPIC, b"%d" % number + bytes(number % 700))).ok
    eventually(lambda: bool(failures) or replica.max_offset(TOPIC, 0) == count, "the replica has everything")
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    follower.become_writable()
    assert replica.put(Message(TOPIC, b"mine")).queue_offset == count
    master.close()
    replica.close()
    for path in sorted((tmp_path / "m" / "commitlog").iterdir())[:-1]:
        assert path.read_bytes() == (tmp_path / "r" / "commitlog" / path.name).read_bytes()


def test_a_change_of_role_never_lets_both_kinds_of_appends_in(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path / "s", replace(SMALL, flush_disk_type="ASYNC_FLUSH"), driven=True)
    driver = store.driver()
    done, accepted = threading.Event(), []

    def send() -> None:
        while not done.is_set():
            before = driver.is_replica
            result = store.put(Message(TOPIC, b"x"))
            if result.ok:
                accepted.append(result.queue_offset)
            elif not before and not driver.is_replica:
                accepted.append(-1)

    sender = threading.Thread(target=send)
    sender.start()
    for _ in range(20):
        driver.become_replica()
        end = driver.appended
        time.sleep(0.0005)  # whatever the sender does now, the log stays as it is
        assert driver.appended == end
        driver.become_writable()
    eventually(lambda: len(accepted) > 100, "messages are taken again")
    done.set()
    sender.join()
    taken = [offset for offset in accepted if offset >= 0]
    assert taken == list(range(len(taken))), "queue offsets have neither gap nor repetition"
    store.close()


def test_a_replica_deletes_by_its_own_options(lab: StoreLab, master: StoreLab) -> None:
    log = filled(master, files=3)
    replica = replica_of(lab, file_reserved_time=1)
    feed(replica, log)
    show(replica)
    lab.clock.jump(master.clock.now_ms() - lab.clock.now_ms() + 2 * 3_600_000)
    assert replica.store.delete_expired() > 0
    first = replica.min_offset
    assert first > 0
    lab.kill()
    replica = replica_of(lab)
    assert (replica.min_offset, replica.appended) == (first, log.end)
    assert replica.store.min_offset(TOPIC, 0) > 0


def put_to(driver: DrivenStore, body: bytes, *queue_ids: int) -> None:
    for queue_id in queue_ids:
        assert driver.store.put(Message(TOPIC, body), queue_id=queue_id).ok


def shown(driver: DrivenStore) -> dict[tuple[str, int], list[bytes]]:
    """The bodies of every queue of the topic that has a message, by offset from 0 on."""
    found = {}
    for topic, queue_id in driver.store.queues():
        if driver.store.max_offset(topic, queue_id):
            assert driver.store.min_offset(topic, queue_id) == 0
            found[topic, queue_id] = [bytes(m.body) for m in driver.store.get(topic, queue_id, 0, 100).messages]
    return found


@pytest.mark.parametrize("at_once", [True, False], ids=["one-slice", "slice-by-slice"])
@pytest.mark.parametrize("new", [(0, 0), (1, 0), (2, 1, 0, 1), (3, 0, 2, 1), (3, 3, 1, 2, 0, 0)])
def test_a_topic_deleted_on_the_master_alone_begins_anew_with_its_first_message(
    lab: StoreLab, master: StoreLab, new: tuple[int, ...], at_once: bool
) -> None:
    """Queue 3 has no message of the earlier life, so nothing but the log's order tells of which life it is."""
    one = open_driven(master)
    replica = replica_of(lab)
    put_to(one, b"old", 0, 1, 2, 0, 0, 1, 2)
    if not at_once:
        feed(replica, log_of(one))
        show(replica)
    one.store.delete_topics([TOPIC])
    for queue_id in new:
        put_to(one, b"new", queue_id)
        if not at_once:
            feed(replica, log_of(one))
            show(replica)
    feed(replica, log_of(one))
    show(replica)
    show(one)
    kept = {key: bodies for key, bodies in shown(replica).items() if b"old" not in bodies}
    assert kept == shown(one)
    assert not {queue_id for (_, queue_id), bodies in shown(replica).items() if b"old" in bodies} & {*new}
    assert not replica.store.health & RunningFlag.LOG_DAMAGED
    lab.close()
    again = replica_of(lab)
    assert {key: bodies for key, bodies in shown(again).items() if b"old" not in bodies} == shown(one)
    master.close()


@pytest.mark.parametrize("lives", [2, 3])
def test_a_replica_killed_before_it_shows_the_new_life_has_it_after_recovery(
    lab: StoreLab, master: StoreLab, lives: int
) -> None:
    one = open_driven(master)
    replica = replica_of(lab)
    put_to(one, b"life 1", 0, 1, 0, 1)
    feed(replica, log_of(one))
    show(replica)
    for life in range(2, lives + 1):
        one.store.delete_topics([TOPIC])
        put_to(one, b"life %d" % life, 0, 1, 1)
    feed(replica, log_of(one))
    replica.sync()
    lab.kill()
    again = replica_of(lab)
    show(again)
    show(one)
    assert shown(again) == shown(one)
    lab.kill()
    assert shown(replica_of(lab)) == shown(one)
    master.close()


def test_a_topic_deleted_on_both_begins_anew_on_both(lab: StoreLab, master: StoreLab) -> None:
    one = open_driven(master)
    for _ in range(3):
        assert one.store.put(Message(TOPIC, b"old")).ok
    replica = replica_of(lab)
    feed(replica, log_of(one))
    show(replica)
    one.store.delete_topics([TOPIC])
    replica.store.delete_topics([TOPIC])
    assert one.store.put(Message(TOPIC, b"new")).queue_offset == 0
    feed(replica, log_of(one))
    show(replica)
    assert all_bodies(replica.store) == [b"new"]
    assert not replica.store.health & RunningFlag.LOG_DAMAGED
    master.close()
