"""A store that its owner drives, and a switch between its two ways to pull: plain code and the compiled core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from flaremq.message.batch import encode_batch_item
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.get import select
from flaremq.storage.message_store import MessageStore
from tests.support.store_lab import StoreLab

BORN_HOST = bytes([10, 0, 0, 7]) + (40001).to_bytes(4, "big")
BORN_HOST_V6 = bytes(15) + b"\x01" + (40001).to_bytes(4, "big")


@contextmanager
def kernels(used: bool) -> Iterator[None]:
    """Inside, pulls go through the compiled core or, as in an interpreted process, through plain code."""
    with patch.object(select, "IS_COMPILED", used):
        yield


class DrivenStore(StoreDriver):
    """A driver together with its store."""

    def __init__(self, store: MessageStore) -> None:
        vars(self).update(vars(store.driver()))
        self.store = store


def open_driven(lab: StoreLab, **changes: Any) -> DrivenStore:
    """The store of a bench, opened for an owner with an event loop; nothing runs on its own."""
    from dataclasses import replace

    lab.options = replace(lab.options, **changes)
    lab._store = MessageStore.open(
        lab.root, lab.options, filesystem=lab.filesystem, clock=lab.clock, threads=False, driven=True
    )
    return DrivenStore(lab._store)


def show(driver: StoreDriver) -> set[tuple[str, int]]:
    """Make everything durable and readable; the queues that grew."""
    driver.sync()
    return driver.dispatch()


def batch_body(*messages: tuple[int, bytes, bytes]) -> bytes:
    """A batch body of (flag, body, properties)."""
    return b"".join(encode_batch_item(flag, body, properties) for flag, body, properties in messages)
