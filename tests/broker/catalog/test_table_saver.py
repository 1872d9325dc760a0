"""Saving tables off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flaremq.broker.catalog.table_saver import TableSaver
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem


class SlowWriter:
    """A worker that starts when told to."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_write = asyncio.Event()

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.is_asked.set()
        await self.may_write.wait()
        return await asyncio.to_thread(function, *arguments)


def opened(folder: Path) -> ConfigFile:
    file = ConfigFile(LocalFileSystem(), str(folder / "x.json"))
    file.load(dict)
    return file


def test_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    saver = TableSaver(opened(tmp_path), lambda: lambda: {"a": 1})
    assert saver.is_saved
    asyncio.run(saver.save())
    saver.save_now()
    assert list(tmp_path.iterdir()) == []


def test_save_returns_when_the_state_of_its_call_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = SlowWriter()
        state = 1
        saver = TableSaver(opened(tmp_path), lambda: partial(dict, a=state), worker.run)
        saver.changed()
        waiting = asyncio.ensure_future(saver.save())
        await worker.is_asked.wait()
        state = 2
        saver.changed()
        assert not saver.is_saved
        worker.may_write.set()
        await waiting
        assert not saver.is_saved  # the second change came after the first call
        await saver.save()
        assert saver.is_saved
        assert opened(tmp_path).load(dict) == {"a": 2}

    asyncio.run(scenario())


def test_late_write_of_an_old_state_does_not_undo_the_last_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = SlowWriter()
        state = 1
        saver = TableSaver(opened(tmp_path), lambda: partial(dict, a=state), worker.run)
        saver.changed()
        waiting = asyncio.ensure_future(saver.save())  # has its snapshot, has not begun to write
        await worker.is_asked.wait()
        state = 2
        saver.changed()
        saver.save_now()
        worker.may_write.set()
        await waiting
        assert opened(tmp_path).load(dict) == {"a": 2}
        assert saver.is_saved

    asyncio.run(scenario())
