"""A reader that polls does not wait for dispatch to gather more: its asking ends the gathering."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from tests.support.store_lab import TOPIC, StoreLab, eventually

POLLS: dict[str, Callable[[MessageStore, int], bool]] = {
    "get": lambda store, offset: bool(store.get(TOPIC, 0, offset).messages),
    "get_bytes": lambda store, offset: store.get_bytes(TOPIC, 0, offset)[1] > 0,
    "max_offset": lambda store, offset: store.max_offset(TOPIC, 0) > offset,
    "query": lambda store, offset: bool(store.query(TOPIC, f"k{offset}")),
    "wait_for_message": lambda store, offset: store.wait_for_message(TOPIC, 0, offset, 0.1),
}


@pytest.mark.parametrize("poll", POLLS)
@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_who_polls_ends_the_gathering_of_dispatch(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch, mode: str, poll: str
) -> None:
    monkeypatch.setattr("flaremq.storage.engine.dispatch_service._GATHER_SECONDS", 3600)
    store = lab.open(threads=True, flush_disk_type=mode)
    for offset in range(5):
        assert store.put(Message(TOPIC, b"x", keys=[f"k{offset}"])).ok
        eventually(lambda number=offset: POLLS[poll](store, number), f"message {offset} is dispatched")  # type: ignore[misc]


def test_closing_ends_the_gathering_of_dispatch(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flaremq.storage.engine.dispatch_service._GATHER_SECONDS", 3600)
    store = lab.open(threads=True)
    lab.put(b"first")
    eventually(lambda: store.dispatched_offset > 0, "the first message is dispatched")
    lab.put(b"second")
    lab.close()
    assert lab.open().max_offset(TOPIC, 0) == 2
