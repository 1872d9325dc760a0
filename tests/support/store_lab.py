"""A store on a bench: small files, a clock that stands still, tools to break and to look at it.

``StoreLab`` owns one directory and the store in it. Every store it leaves behind is held against itself by the
product's own verifier when the test ends, unless the test says that it broke something on purpose.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flaremq.clock import ManualClock
from flaremq.message.delay import parse_delay_levels
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.verify.finding import Severity
from flaremq.storage.verify.verifier import StoreVerifier

LOG_FILE = 16 * 1024
TOPIC = "orders"

SMALL = StoreOptions(
    mapped_file_size_commit_log=LOG_FILE,
    mapped_file_size_consume_queue=20 * 20,
    max_hash_slot_num=16,
    max_index_num=64,
    reserve_step_commit_log=LOG_FILE,
    reserve_step_index=4096,
)


class MeasuredFileSystem(LocalFileSystem):
    """The local file system, with the used share of each partition given by the test."""

    __slots__ = ("by_folder", "used", "used_by")

    def __init__(self, used: float = 0.1) -> None:
        self.used = used
        self.by_folder: dict[str, float] = {}
        self.used_by: Callable[[], float] | None = None  # asked instead of ``used``

    def used_ratio(self, path: str) -> float:
        used = self.used if self.used_by is None else self.used_by()
        return self.by_folder.get(os.path.normpath(path), used)


@dataclass
class StoreLab:
    """One store directory and the store that is open in it, if any."""

    root: Path
    options: StoreOptions = SMALL
    clock: ManualClock = field(default_factory=ManualClock)
    filesystem: FileSystem = field(default_factory=LocalFileSystem)
    broken_on_purpose: bool = False
    odd_text: bool = False  # properties that are no UTF-8 were stored: legal, but the verifier points at them
    _store: MessageStore | None = None

    @property
    def store(self) -> MessageStore:
        assert self._store is not None, "no store is open"
        return self._store

    def open(self, *, threads: bool = False, **changes: Any) -> MessageStore:
        """Open the store; ``changes`` are options that stay changed."""
        self.options = replace(self.options, **changes)
        self._store = MessageStore.open(
            self.root, self.options, filesystem=self.filesystem, clock=self.clock, threads=threads
        )
        return self._store

    def close(self) -> None:
        self.store.close()
        self._store = None

    def kill(self) -> None:
        """The process dies: nothing is flushed, nothing is marked."""
        self.store.abandon()
        self._store = None

    def reopen(self, **changes: Any) -> MessageStore:
        self.close()
        return self.open(**changes)

    def kill_and_open(self, **changes: Any) -> MessageStore:
        self.kill()
        return self.open(**changes)

    def put(self, body: bytes = b"body", topic: str = TOPIC, queue_id: int = 0, **fields: Any) -> PutResult:
        """Put a message that must succeed; one millisecond passes."""
        self.clock.advance(1)
        result = self.store.put(Message(topic, body, **fields), queue_id)
        assert result.ok, result
        return result

    def put_many(self, count: int, **fields: Any) -> list[PutResult]:
        return [self.put(b"body %03d" % number, **fields) for number in range(count)]

    def fill_files(self, count: int, **fields: Any) -> list[PutResult]:
        """Put until ``count`` log files are full and the next one has begun."""
        results = []
        while len(self.store._commit_log.files.files) <= count:
            results.append(self.put(b"x" * 2000, **fields))
        return results

    # What is on disk

    @property
    def abort(self) -> Path:
        return self.root / "abort"

    def log_files(self) -> list[Path]:
        return sorted((self.root / "commitlog").iterdir())

    def queue_files(self, topic: str = TOPIC, queue_id: int = 0) -> list[Path]:
        return sorted((self.root / "consumequeue" / topic / str(queue_id)).iterdir())

    def log_bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.log_files())

    def queue_bytes(self) -> dict[str, bytes]:
        """Every file of every queue, by its path below the store."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted((self.root / "consumequeue").rglob("0*"))
            if path.is_file()
        }

    def index_bytes(self) -> list[bytes]:
        """Index files in order; their names are only the time they were made."""
        return [path.read_bytes() for path in sorted((self.root / "index").glob("[0-9]*"))]

    def overwrite(self, path: Path, at: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def damage_log(self, physical_offset: int, data: bytes | None = None) -> None:
        """Overwrite log bytes on disk; by default the byte there is inverted."""
        first = int(self.log_files()[0].name)
        size = self.options.mapped_file_size_commit_log
        path = self.log_files()[(physical_offset - first) // size]
        at = physical_offset % size
        if data is None:
            data = bytes([path.read_bytes()[at] ^ 0xFF])
        self.overwrite(path, at, data)

    def findings(self) -> list[str]:
        """What the verifier has to say beyond notes."""
        geometry = IndexGeometry(self.options.max_hash_slot_num, self.options.max_index_num)
        folders = self.options.commit_log_folders(self.root)
        levels = parse_delay_levels(self.options.message_delay_level)
        with StoreReader.open(self.root, commit_log_paths=folders, index_geometry=geometry) as reader:
            found = StoreVerifier(reader, delay_levels=levels).findings()
            return [
                str(finding)
                for finding in found
                if finding.severity is not Severity.NOTE and not (self.odd_text and finding.kind == "record-odd")
            ]

    def finish(self) -> None:
        """The end of a test: close what is open and check what is left."""
        if self._store is not None and not self._store._engine.closed:
            self._store.close()
        found = [] if self.broken_on_purpose or not (self.root / "commitlog").is_dir() else self.findings()
        if found:
            raise AssertionError("the store left behind is not sound:\n" + "\n".join(found))


def bodies(messages: list[MessageExt]) -> list[bytes]:
    return [message.body for message in messages]


def all_bodies(store: MessageStore, topic: str = TOPIC, queue_id: int = 0) -> list[bytes]:
    """Every message a consumer sees, read from the start as a consumer reads."""
    found: list[bytes] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset)
        found += bodies(result.messages)
        assert result.next_offset > offset, result
        offset = result.next_offset
    return found


def eventually(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait until a condition of another thread holds; ``what`` is the failure's text."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.002)):
        if condition():
            return
        pause.wait(0.002)
    raise AssertionError(f"waited {seconds} s in vain: {what}")
