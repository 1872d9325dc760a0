"""Opening and closing: the lock, the abort mark, options from broker.conf, several log folders, waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.store_lab import LOG_FILE, TOPIC, StoreLab, all_bodies, eventually

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.readline()
"""


def snapshot(root: Path) -> dict[Path, tuple[bytes, int]]:
    return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in root.rglob("*") if p.is_file()}


def test_w15_second_open_in_this_process_is_refused_and_changes_nothing(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    before = snapshot(lab.root)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="already has the store open"):
            MessageStore.open(lab.root, lab.options, threads=False)
    assert snapshot(lab.root) == before
    assert lab.put().queue_offset == 1


def test_w15_open_is_refused_while_another_process_holds_the_lock(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.close()
    before = snapshot(lab.root)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(lab.root / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UnavailableError, match="another process"):
            lab.open()
        assert snapshot(lab.root) == before
        holder.communicate(b"\n")
    lab.open()


def test_our_lock_is_seen_by_other_processes(lab: StoreLab) -> None:
    lab.open()
    ended = subprocess.run(
        [sys.executable, "-c", HOLD_LOCK, str(lab.root / "lock")], input=b"\n", capture_output=True, check=False
    )
    assert ended.returncode != 0 and b"BlockingIOError" in ended.stderr
    assert (lab.root / "lock").read_bytes() == b"lock"


def test_lock_is_given_back_when_opening_fails(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.close()
    with pytest.raises(Exception, match="mappedFileSizeCommitLog"):
        lab.open(mapped_file_size_commit_log=4 * LOG_FILE)
    lab.open(mapped_file_size_commit_log=LOG_FILE)


def test_abort_file_exists_exactly_while_the_store_is_open(lab: StoreLab) -> None:
    lab.open()
    assert lab.abort.read_text() == f"{os.getpid()} flaremq"
    lab.close()
    assert not lab.abort.exists()
    lab.open()
    lab.kill()
    assert lab.abort.exists()
    lab.open()
    assert not lab.store.recovery.closed_cleanly


def test_empty_abort_file_of_rocketmq_49_counts_as_a_crash(lab: StoreLab) -> None:
    lab.open()
    lab.close()
    lab.abort.touch()
    assert not lab.open().recovery.closed_cleanly


@pytest.mark.parametrize("threads", [False, True])
def test_closing_twice_is_fine(lab: StoreLab, threads: bool) -> None:
    store = lab.open(threads=threads)
    lab.put()
    store.close()
    store.close()


def test_with_statement_closes(tmp_path: Path, lab: StoreLab) -> None:
    with MessageStore.open(tmp_path / "s", lab.options) as store:
        assert store.put(Message(TOPIC, b"x")).ok
    assert not (tmp_path / "s" / "abort").exists()


def test_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="not a directory"):
        MessageStore.open(tmp_path / "file")


def test_relative_path_and_missing_parents_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: StoreLab) -> None:
    monkeypatch.chdir(tmp_path)
    with MessageStore.open("a/b/c", lab.options, threads=False) as store:
        store.put(Message(TOPIC, b"x"))
    assert (tmp_path / "a/b/c/commitlog").is_dir()


def test_messages_lent_by_a_closed_store_stay_readable(lab: StoreLab) -> None:
    lab.open()
    lab.put(b"still here")
    message = lab.store.get(TOPIC, 0, 0).messages[0]
    lab.close()
    assert message.body == b"still here"


def test_foreign_files_in_the_store_are_left_alone(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.close()
    foreign = ["config/topics.json", "timerwheel", "commitlog/notes.txt", "consumequeue/.DS_Store", "index/x.tmp"]
    for name in foreign:
        (lab.root / name).parent.mkdir(exist_ok=True)
        (lab.root / name).write_text("{}")
    lab.broken_on_purpose = True  # RocketMQ would stumble over some of them, and the verifier says so
    assert len(all_bodies(lab.open())) == 1
    lab.close()
    assert [(lab.root / name).read_text() for name in foreign] == ["{}"] * len(foreign)


# Options


def test_store_opens_by_the_options_of_a_broker_conf(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerClusterName = DefaultCluster\n"
        f"mappedFileSizeCommitLog = {LOG_FILE}\nmappedFileSizeConsumeQueue = 390\n"
        "maxHashSlotNum = 16\nmaxIndexNum = 64\nflushDiskType = ASYNC_FLUSH\n"
        "brokerIP1 = 10.9.8.7\nlistenPort = 12345\nmessageDelayLevel = 1s 2s\n"
    )
    options = StoreOptions.load(conf)
    with MessageStore.open(tmp_path / "s", options, threads=False) as store:
        store.put(Message(TOPIC, b"x"))
        assert store.flushed_offset == 0
        assert store.get(TOPIC, 0, 0).messages[0].store_host == "10.9.8.7:12345"
    (log,) = (tmp_path / "s/commitlog").iterdir()
    (queue,) = (tmp_path / "s/consumequeue" / TOPIC / "0").iterdir()
    assert (log.stat().st_size, queue.stat().st_size) == (LOG_FILE, 400)  # rounded up to whole units
    assert not (tmp_path / "s/index").exists()  # no key, no index file


def test_log_in_several_folders_is_one_log(lab: StoreLab, tmp_path: Path) -> None:
    folders = [tmp_path / "disk2" / "log", tmp_path / "disk1" / "log"]
    lab.open(store_path_commit_log=",".join(map(str, folders)))
    results = lab.fill_files(4)
    names = {folder: sorted(int(path.name) // LOG_FILE for path in folder.iterdir()) for folder in folders}
    assert names == {folders[1]: [0, 2, 4], folders[0]: [1, 3]}
    for reopen in (lab.reopen, lab.kill_and_open):
        reopen()
        assert len(all_bodies(lab.store)) == len(results)
    assert lab.put().queue_offset == len(results)


def test_no_new_file_is_made_in_a_read_only_log_folder(lab: StoreLab, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    lab.open(store_path_commit_log=f"{a},{b}")
    results = lab.fill_files(2)
    lab.reopen(read_only_commit_log_store_paths=str(a))
    before = len(list(a.iterdir()))
    results += lab.fill_files(6)
    assert len(list(a.iterdir())) == before
    assert len(all_bodies(lab.store)) == len(results)


# Waiting


def test_waiting_for_a_message_that_is_there_returns_at_once(lab: StoreLab) -> None:
    store = lab.open(threads=True)
    lab.put()
    assert store.wait_for_dispatch(20)
    assert store.wait_for_message(TOPIC, 0, 0, 0)
    assert not store.wait_for_message(TOPIC, 0, 1, 0)
    assert not store.wait_for_message("other", 0, 0, 0)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_waiter_is_woken_by_the_message_it_waits_for(lab: StoreLab, flush: str) -> None:
    store = lab.open(threads=True, flush_disk_type=flush)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(store.wait_for_message(TOPIC, 0, 1, 20)), daemon=True)
    thread.start()
    eventually(lambda: store._dispatch.waiters == 1, "somebody waits")
    lab.put()
    lab.put()
    thread.join(20)
    assert found == [True]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_consumer_that_follows_a_producer_misses_nothing(lab: StoreLab, flush: str) -> None:
    store = lab.open(threads=True, flush_disk_type=flush)
    seen: list[bytes] = []

    def consume() -> None:
        offset = 0
        while offset < 150 and store.wait_for_message(TOPIC, 0, offset, 20):
            result = store.get(TOPIC, 0, offset)
            seen.extend(message.body for message in result.messages)
            offset = result.next_offset

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    for number in range(150):
        lab.put(b"%d " % number * 60)
    thread.join(20)
    assert seen == [b"%d " % number * 60 for number in range(150)]


def test_closing_wakes_everyone_who_waits(lab: StoreLab) -> None:
    store = lab.open(threads=True)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(store.wait_for_message(TOPIC, 0, 9, None)), daemon=True)
    thread.start()
    eventually(lambda: store._dispatch.waiters == 1, "somebody waits")
    lab.close()
    thread.join(20)
    assert found == [False]


@pytest.mark.slow
def test_store_with_threads_does_everything_by_itself(lab: StoreLab) -> None:
    store = lab.open(threads=True, flush_disk_type="ASYNC_FLUSH", flush_interval_commit_log=1)
    lab.put_many(30, keys="k")
    assert store.wait_for_dispatch(20)
    assert len(all_bodies(store)) == 30
    lab.clock.advance(11_000)  # the thorough flush is due
    eventually(lambda: store.flushed_offset == store.max_physical_offset, "the flush thread")
    lab.clock.advance(61_000)
    eventually(lambda: store._engine.checkpointer.dispatched == store.max_physical_offset, "the checkpoint")
    lab.kill_and_open()
    assert lab.store.recovery.started_at == lab.store.max_physical_offset
    assert len(all_bodies(lab.store)) == 30


def test_sync_flush_thread_makes_unwaited_messages_visible(lab: StoreLab) -> None:
    store = lab.open(threads=True)
    lab.put(b"nobody waits", wait_store_msg_ok=False)
    assert store.wait_for_message(TOPIC, 0, 0, 20)


def test_a_path_opens_no_store_without_open() -> None:
    with pytest.raises(InvalidArgumentError, match=r"MessageStore\.open\('store'\)"):
        MessageStore("store")  # type: ignore[arg-type]
