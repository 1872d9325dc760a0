"""What a slave's connection does with reads that come while a worker thread appends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from flaremq.broker.replication import master_link
from flaremq.broker.replication.door import Door
from flaremq.broker.replication.master_link import MasterLink
from flaremq.errors import StoreIOError
from flaremq.replication.follower import AddEpoch, Append, Step
from tests.support.replication_lab import GROUP, run


class _Transport(asyncio.Transport):
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def writelines(self, list_of_data: Any) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        pass


class _Follower:
    """Each read brings the next of these steps."""

    failure = None
    log_end = 0

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)

    def hello(self) -> bytes:
        return b""

    def receive(self, data: memoryview, now: float) -> list[Step]:
        return [self._steps.pop(0)]

    def report(self, held: int, now: float) -> bytes:
        return b""


class _Log:
    held = 0
    is_too_far_ahead_of_the_disk = False

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def append_beside(self, steps: Sequence[Step], is_over: threading.Event) -> None:
        await self.go_on.wait()

    def apply(self, steps: Sequence[Step]) -> None:
        raise StoreIOError("write", "epochFileCheckpoint", OSError(28, "No space left on device"))

    def wait_for_piece(self) -> None:
        pass


def test_step_that_fails_behind_a_piece_that_a_thread_appends_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(master_link, "LARGE_BYTES", 1)

    async def scenario() -> None:
        log: Any = _Log()
        follower: Any = _Follower(Append(0, b"records"), AddEpoch(2, 7))
        link = MasterLink(log, follower, Door(group=GROUP), 1)
        link.connection_made(_Transport())
        link.buffer_updated(7)
        link.buffer_updated(7)
        log.go_on.set()
        error = await asyncio.wait_for(link.ended, 5)
        assert isinstance(error, StoreIOError)

    run(scenario)
