"""A log file is unmapped or deleted in the very moment somebody reads it: nobody's bytes go away."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flaremq.errors import StoreIOError
from flaremq.message.message_ext import MessageExt
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.get.pull import Puller
from flaremq.storage.message_store import MessageStore
from tests.support.mapping_hook import HookedFileSystem
from tests.support.store_lab import TOPIC, StoreLab

BODY = b"x" * 2000


def pulled(store: MessageStore) -> list[bytes]:
    puller = Puller(store._commit_log, store._queues, store._reader, store.options)
    found = puller.pull(TOPIC, 0, 0, 3, 1 << 20)
    records = b"".join(found.views)
    return _split(records)


def _split(records: bytes) -> list[bytes]:
    bodies = []
    while records:
        message = MessageExt(memoryview(records))
        bodies.append(MessageExt(memoryview(records[: message.size])).body)
        records = records[message.size :]
    return bodies


def _unit_repaired(store: MessageStore) -> list[bytes]:
    queue = store._queues.simple[(TOPIC, 0)]
    queue.replace(1, bytes(20))
    return [message.body for message in store.get(TOPIC, 0, 0, 3).messages]


READERS: dict[str, Callable[[MessageStore], list[bytes]]] = {
    "get": lambda store: [message.body for message in store.get(TOPIC, 0, 0, 3).messages],
    "get a damaged unit": _unit_repaired,
    "get_bytes": lambda store: _split(bytes(store.get_bytes(TOPIC, 0, 0, 3)[0])),
    "pull": pulled,
    "scan": lambda store: [
        body for batch in store.scan(TOPIC, 0, 0, 3, columns=["body"]) for body in batch.column(0).to_pylist()
    ],
    "query": lambda store: [message.body for n in range(3) for message in store.query(TOPIC, f"k{n}")],
    "query_many": lambda store: [
        message.body for found in store.query_many(TOPIC, ["k0", "k1", "k2"]) for message in found
    ],
    "read": lambda store: [
        message.body
        for n in range(3)
        if (message := store.read(store._queues.simple[(TOPIC, 0)].unit(n)[0]))  # type: ignore[index]
    ],
}


@pytest.fixture
def filesystem(lab: StoreLab) -> HookedFileSystem:
    lab.filesystem = HookedFileSystem()
    return lab.filesystem


def fill(lab: StoreLab) -> MessageStore:
    store = lab.open(data_read_ahead_enable=False)
    number = 0
    while len(store._commit_log.files.files) <= 2:
        lab.put(BODY, keys=f"k{number}")
        number += 1
    store.tick()
    return store


@pytest.mark.parametrize("reader", READERS)
def test_reader_whose_file_is_unmapped_after_it_took_the_buffer_reads_on(
    lab: StoreLab, filesystem: HookedFileSystem, reader: str
) -> None:
    store = fill(lab)
    first = store._commit_log.files.files[0]
    seen = []

    def unmap(path: str) -> None:
        if path == first.path:
            seen.append(path)
            first.unmap()

    filesystem.at_buffer = unmap
    assert READERS[reader](store) == [BODY] * 3
    assert seen, "the reader never took the buffer: this test shows nothing"


@pytest.mark.parametrize("reader", READERS)
def test_reader_whose_file_is_unmapped_while_it_maps_it_reads_on(
    lab: StoreLab, filesystem: HookedFileSystem, reader: str
) -> None:
    store = fill(lab)
    first = store._commit_log.files.files[0]
    first.unmap()
    seen = []

    def unmap(path: str) -> None:
        if path == first.path:
            seen.append(path)
            first._mapping = None  # what another thread's unmap() leaves between two lines of this one

    filesystem.at_map = unmap
    assert READERS[reader](store) == [BODY] * 3
    assert seen, "the reader never mapped the file: this test shows nothing"


@pytest.mark.parametrize("reader", READERS)
def test_reader_whose_file_is_deleted_after_it_took_the_buffer_gets_messages_or_none(
    lab: StoreLab, filesystem: HookedFileSystem, reader: str
) -> None:
    store = fill(lab)
    files = store._commit_log.files
    first = files.files[0]

    def delete(path: str) -> None:
        filesystem.at_buffer = None
        files.drop_first()

    filesystem.at_buffer = delete
    found = READERS[reader](store)
    assert found == [BODY] * len(found)
    assert not os.path.exists(first.path)


def test_one_lent_message_does_not_keep_other_files(lab: StoreLab) -> None:
    store = lab.open()
    lab.fill_files(4)
    message = store.get(TOPIC, 0, 0, 1).messages[0]
    assert store.delete_expired(force=True) == 4
    assert message.body == BODY
    assert len(lab.log_files()) == 1


def test_the_last_reader_of_a_deleted_file_gives_its_memory_back(tmp_path: Path) -> None:
    path = str(tmp_path / f"{0:020d}")
    file = MappedFile.create(LocalFileSystem(), path, 8192, reserve=8192)
    view = file.view(0, 10)
    file.destroy()
    assert view is not None and not os.path.exists(path) and _is_mapped(path)
    del view
    assert not _is_mapped(path)


def _is_mapped(path: str) -> bool:
    return path in Path("/proc/self/maps").read_text()


def test_closed_file_is_not_mapped_as_fresh_memory(tmp_path: Path) -> None:
    handle = LocalFileSystem().open(str(tmp_path / "a"), create=True)
    handle.resize(4096)
    handle.close()
    with pytest.raises(StoreIOError):
        handle.map(4096)


def test_files_this_process_wrote_are_unmapped_too_when_there_are_many(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flaremq.storage.files.mapped_file_queue._MAPPED_FILES_MAX", 3)
    store = lab.open()
    lab.fill_files(8)
    assert sum(file.is_mapped for file in store._commit_log.files.files) <= 4
    assert [message.body for message in store.get(TOPIC, 0, 0, 3).messages] == [BODY] * 3
