"""Offsets of broadcasting consumers, in a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.client.consumer.offset_store import NO_OFFSET, LocalOffsets, local_offsets_path
from flaremq.errors import FlareMQError, StoreIOError
from flaremq.protocol.bodies.queue import MessageQueue
from tests.client.consumer.test_process_queue import make

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]


def test_offsets_are_found_again(tmp_path: Path) -> None:
    path = local_offsets_path(str(tmp_path), "", "group")

    async def run() -> None:
        store = LocalOffsets(path)
        assert await store.load(QUEUES[0]) == NO_OFFSET
        held = make(11)
        await store.save([held])
        assert held.reported_offset == 11
        await store.save_offset(QUEUES[1], 22)
        again = LocalOffsets(path)
        assert [await again.load(queue) for queue in QUEUES] == [11, 22, NO_OFFSET]

    asyncio.run(run())


def test_saves_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalOffsets(tmp_path / "offsets.json")
        await store.load(QUEUES[0])
        await asyncio.gather(*(store.save_offset(queue, 5) for queue in QUEUES))
        again = LocalOffsets(tmp_path / "offsets.json")
        assert [await again.load(queue) for queue in QUEUES] == [5, 5, 5]

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"offsets":[{"topic":"T"}]}', "not json"])
def test_file_that_holds_no_offsets_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(text)
    with pytest.raises(FlareMQError, match=r"offsets\.json holds no offsets"):
        asyncio.run(LocalOffsets(path).load(QUEUES[0]))


def test_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = LocalOffsets(tmp_path / "file" / "offsets.json")
    with pytest.raises(StoreIOError, match="file"):
        asyncio.run(store.save_offset(QUEUES[0], 1))


def test_named_instances_have_files_of_their_own(tmp_path: Path) -> None:
    paths = {local_offsets_path(str(tmp_path), name, group) for name in ("", "a", "b") for group in ("g", "h")}
    assert len(paths) == 6
