"""One log, one writer: whatever the processes call it, and as far as a lock can say it to RocketMQ."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.message import Message
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files import locks as store_lock
from flaremq.storage.files.claim import StoreClaim
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.store_holder import StoreHolder
from tests.support.store_lab import StoreLab

SMALL = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "20",
    "maxIndexNum": "80",
}
# Ways to name the log of store "one", each with the root of who does so ("{x}" is a root of its own).
NAMES: dict[str, tuple[str, dict[str, str]]] = {
    "root": ("one", {}),
    "link to the root": ("one-link", {}),
    "path": ("{x}", {"storePathCommitLog": "one/commitlog"}),
    "path and its root": ("one", {"storePathCommitLog": "one/commitlog"}),
    "other spelling": ("{x}", {"storePathCommitLog": "one/../one//commitlog/"}),
    "link to the folder": ("{x}", {"storePathCommitLog": "log-link"}),
    "second of several": ("{x}", {"storePathCommitLog": "{x}/own,one/commitlog"}),
    "read-only one": (
        "{x}",
        {"storePathCommitLog": "{x}/own,one/commitlog", "readOnlyCommitLogStorePaths": "one/commitlog"},
    ),
}


def told(base: Path, name: str, own: str) -> tuple[Path, dict[str, str]]:
    root, options = NAMES[name]
    paths = {
        key: ",".join(str(base) + "/" + part.replace("{x}", own) for part in text.split(","))
        for key, text in options.items()
    }
    return base / root.replace("{x}", own), SMALL | paths


def open_as(base: Path, name: str, own: str) -> MessageStore:
    root, options = told(base, name, own)
    return MessageStore.open(root, StoreOptions.from_properties(options), threads=False)


@pytest.fixture(scope="module")
def holder() -> Iterator[StoreHolder]:
    with StoreHolder() as process:
        yield process


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Store "one" with a message, closed, and links to it and to its log."""
    with MessageStore.open(tmp_path / "one", StoreOptions.from_properties(SMALL), threads=False) as store:
        assert store.put(Message("T", b"body")).ok
    (tmp_path / "one-link").symlink_to(tmp_path / "one")
    (tmp_path / "log-link").symlink_to(tmp_path / "one" / "commitlog")
    return tmp_path


@pytest.mark.parametrize("first", NAMES)
def test_a_log_that_a_process_writes_is_refused_to_another_under_every_name(
    base: Path, holder: StoreHolder, first: str
) -> None:
    assert holder.open(*told(base, first, "x")) == "done"
    before = {path: path.read_bytes() for path in (base / "one").rglob("*") if path.is_file()}
    for second in NAMES:
        with pytest.raises(UnavailableError):
            open_as(base, second, "y")
        with pytest.raises(UnavailableError):
            StoreReader.open(base / "one")
    assert {path: path.read_bytes() for path in (base / "one").rglob("*") if path.is_file()} == before
    holder.close()
    open_as(base, "root", "y").close()


@pytest.mark.parametrize("second", NAMES)
def test_a_log_that_this_process_writes_is_refused_to_itself_under_every_name(base: Path, second: str) -> None:
    with open_as(base, "path", "x"), pytest.raises(UnavailableError, match="this process"):
        open_as(base, second, "y")
    open_as(base, second, "y").close()


@pytest.mark.parametrize("first", ["root", "path", "link to the folder"])
def test_readers_go_along_with_each_other_and_not_with_a_writer(base: Path, holder: StoreHolder, first: str) -> None:
    (base / "x").mkdir()
    assert holder.read(*told(base, first, "x")) == "done"
    before = sorted(base.rglob("*"))
    for second in ("root", "path", "link to the folder"):
        root, options = told(base, second, "x")
        folders = StoreOptions.from_properties(options).commit_log_folders(root)
        with StoreReader.open(root, commit_log_paths=folders) as reader:
            assert reader.survey.records == 1
    assert sorted(base.rglob("*")) == before, "a reader makes no file"
    for second in NAMES:
        with pytest.raises(UnavailableError):
            open_as(base, second, "y")
    holder.close()


def test_two_stores_with_logs_of_their_own_in_one_folder_do_not_disturb_each_other(
    base: Path, holder: StoreHolder
) -> None:
    options = SMALL | {"storePathCommitLog": str(base / "disk" / "log-x")}
    assert holder.open(base / "x", options) == "done"
    options["storePathCommitLog"] = str(base / "disk" / "log-y")
    MessageStore.open(base / "y", StoreOptions.from_properties(options), threads=False).close()
    assert not os.listdir(base / "disk" / "log-y") or all(name.isdigit() for name in os.listdir(base / "disk/log-y"))
    holder.close()


def test_a_folder_named_twice_is_refused(base: Path) -> None:
    options = StoreOptions.from_properties(
        SMALL | {"storePathCommitLog": f"{base}/one/commitlog,{base}/log-link"},
    )
    with pytest.raises(InvalidArgumentError, match="one folder twice"):
        MessageStore.open(base / "x", options, threads=False)
    open_as(base, "root", "x").close()


# RocketMQ: an exclusive lock on byte 0 of its root's ``lock``, and open log files

JAVA_ROOT = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.readline()
"""
JAVA_LOG = """
import sys
file = open(sys.argv[1], "r+b")
print("held", flush=True)
sys.stdin.readline()
"""


class Java:
    """What a Java broker does to be seen."""

    def __init__(self, program: str, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self.started = self.process.stdout.readline() == b"held\n"

    def __enter__(self) -> Java:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(b"\n")


@pytest.mark.parametrize("name", NAMES)
def test_a_java_broker_that_holds_the_root_around_the_log_is_respected(base: Path, name: str) -> None:
    with Java(JAVA_ROOT, base / "one" / "lock") as java:
        assert java.started
        with pytest.raises(UnavailableError, match="lock"):
            open_as(base, name, "x")
    open_as(base, name, "x").close()


@pytest.mark.parametrize("name", NAMES)
def test_a_java_broker_does_not_get_the_root_around_a_log_that_we_write(base: Path, name: str) -> None:
    with open_as(base, name, "x"), Java(JAVA_ROOT, base / "one" / "lock") as java:
        assert not java.started


def test_a_java_broker_does_not_get_a_root_that_was_never_one_around_our_log(tmp_path: Path) -> None:
    options = StoreOptions.from_properties(SMALL | {"storePathCommitLog": str(tmp_path / "disk" / "commitlog")})
    with (
        MessageStore.open(tmp_path / "x", options, threads=False),
        Java(JAVA_ROOT, tmp_path / "disk" / "lock") as java,
    ):
        assert not java.started


def test_a_java_root_further_up_is_respected_when_it_is_a_store(base: Path) -> None:
    options = StoreOptions.from_properties(SMALL | {"storePathCommitLog": str(base / "one" / "deep" / "log")})
    with Java(JAVA_ROOT, base / "one" / "lock") as java:
        assert java.started
        with pytest.raises(UnavailableError, match="lock"):
            MessageStore.open(base / "x", options, threads=False)
    MessageStore.open(base / "x", options, threads=False).close()


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_writes_to_the_log_without_any_lock_is_seen(base: Path, name: str) -> None:
    with Java(JAVA_LOG, base / "one" / "commitlog" / f"{0:020d}") as java:
        assert java.started
        with pytest.raises(UnavailableError, match=f"process {java.process.pid} .* writes to {0:020d}"):
            open_as(base, name, "x")
        with pytest.raises(UnavailableError, match=f"process {java.process.pid} "):
            StoreReader.open(base / "one")
    open_as(base, name, "x").close()


def test_a_process_that_only_reads_the_log_is_no_writer(base: Path) -> None:
    program = JAVA_LOG.replace("r+b", "rb")
    with Java(program, base / "one" / "commitlog" / f"{0:020d}") as java:
        assert java.started
        open_as(base, "path", "x").close()


def test_other_processes_are_not_looked_through_for_a_log_that_nobody_writes(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lock.fcntl, "fcntl", lambda *_: 0)  # leases, whatever file system this is
    looked: list[str] = []
    listdir = os.listdir
    monkeypatch.setattr(store_lock.os, "listdir", lambda path=".": (looked.append(str(path)), listdir(path))[1])
    open_as(base, "path", "x").close()
    assert not [path for path in looked if path.startswith("/proc")]


def test_without_leases_a_writer_is_seen_all_the_same(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = store_lock.fcntl.fcntl

    def no_leases(descriptor: int, command: int, argument: Any = 0) -> Any:
        if command == store_lock.fcntl.F_SETLEASE:
            raise OSError(errno.EINVAL, "no leases here")
        return fcntl(descriptor, command, argument)

    monkeypatch.setattr(store_lock.fcntl, "fcntl", no_leases)
    open_as(base, "path", "x").close()
    with Java(JAVA_LOG, base / "one" / "commitlog" / f"{0:020d}") as java:
        assert java.started
        with pytest.raises(UnavailableError, match=f"process {java.process.pid} .* writes to {0:020d}"):
            open_as(base, "path", "x")


# Threads of one process


def test_of_two_threads_that_open_one_store_exactly_one_gets_it(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[object] = []
    second = threading.Thread(target=lambda: outcomes.append(_try_lock(lab.root / "lock")))
    lockf = store_lock.fcntl.lockf

    def interrupted(*arguments: Any) -> None:
        """The second thread gets its chance between the look at the table and the note in it."""
        lockf(*arguments)
        if not second.ident:
            second.start()
            second.join(0.2)

    lab.root.mkdir(exist_ok=True)
    monkeypatch.setattr(store_lock.fcntl, "lockf", interrupted)
    outcomes.append(_try_lock(lab.root / "lock"))
    second.join(60)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["HeldLock", "UnavailableError"]
    for outcome in outcomes:
        if isinstance(outcome, store_lock.HeldLock):
            outcome.release()


def _try_lock(path: Path) -> object:
    try:
        return store_lock.lock_file(str(path))
    except UnavailableError as error:
        return error


def test_a_lock_counts_as_held_until_its_descriptor_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else another thread takes it in between, and the close drops it: POSIX locks are the process's."""
    lock = store_lock.lock_file(str(tmp_path / "lock"))
    stat = os.stat(tmp_path / "lock")
    seen = []
    close = os.close

    def watched(descriptor: int) -> None:
        seen.append((stat.st_dev, stat.st_ino) in store_lock._held)
        close(descriptor)

    monkeypatch.setattr(store_lock.os, "close", watched)
    lock.release()
    assert seen == [True] and not store_lock.is_locked(str(tmp_path / "lock"))


def test_a_refused_lock_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    lock = store_lock.lock_file(str(tmp_path / "lock"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(UnavailableError):
            store_lock.lock_file(str(tmp_path / "lock"))
    assert len(os.listdir("/proc/self/fd")) == before
    lock.release()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("shared", [True, False])
def test_a_pipe_in_the_place_of_a_lock_file_blocks_nobody(tmp_path: Path, shared: bool) -> None:
    path = str(tmp_path / "lock")
    os.mkfifo(path)
    call = "lock_file_shared" if shared else "lock_file"
    code = f"from flaremq.storage.files import locks; print(locks.{call}({path!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "HeldLock" in done.stdout, done.stderr


def test_a_forked_child_does_not_keep_the_locks_of_its_parent(tmp_path: Path) -> None:
    claim = StoreClaim.to_write(LocalFileSystem(), StoreLayout(_made(tmp_path / "x")))
    held = {lock.descriptor for lock in store_lock._held.values()}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done
        os._exit(len(store_lock._held) + sum(os.path.exists(f"/proc/self/fd/{number}") for number in held))
    os.close(reading)
    try:
        claim.release()
        StoreClaim.to_write(LocalFileSystem(), StoreLayout(tmp_path / "x")).release()
    finally:
        os.close(writing)
        assert os.waitpid(child, 0)[1] == 0


def test_where_folders_cannot_be_locked_a_file_beside_them_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")  # NFS

    monkeypatch.setattr(store_lock.fcntl, "flock", refused)
    lock = store_lock.lock_folder(str(_made(tmp_path / "log")))
    assert (tmp_path / "log.lock").exists()
    with pytest.raises(UnavailableError):
        store_lock.lock_folder(str(tmp_path / "log"))
    assert lock is not None
    lock.release()


def _made(path: Path) -> Path:
    path.mkdir()
    return path
