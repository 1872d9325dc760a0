"""Stores whose bodies have fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.pipeline.conftest import FIRST_MS, SIZES

PutBodies = Callable[[Sequence[bytes]], str]


@pytest.fixture
def put_bodies(tmp_path: Path) -> PutBodies:
    """Puts bodies into the one queue of ``orders``, with headers of a trace as properties; the store's path."""

    def put(bodies: Sequence[bytes]) -> str:
        root = tmp_path / "store"
        options = StoreOptions.from_properties(SIZES | {"flushDiskType": "ASYNC_FLUSH"})
        with MessageStore.open(root, options, clock=ManualClock(FIRST_MS)) as store:
            for at, body in enumerate(bodies):
                properties = {"traceparent": f"00-{at:032x}-01", "x-tenant": "acme" if at % 2 else "zeta"}
                store.put(Message("orders", body, tags="paid", properties=properties), queue_id=0)
        return str(root)

    return put
