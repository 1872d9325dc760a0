"""What deliveries ask of the store: the part of StoreLoop they use, as a seam.

Delayed, timed and transactional messages are moved by reading records, putting others, and remembering how far that
went. The memory may never be ahead of the log: a cursor that survives a power cut while the delivery it stands for
does not is a lost message. ``is_durable`` is asked before any cursor is saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from flaremq.message.stored_form import StoredForm
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult

_T = TypeVar("_T")


class StoreAccess(Protocol):
    """A store on an event loop: StoreLoop, or something simpler in a test."""

    @property
    def store(self) -> MessageStore: ...

    @property
    def waits_for_sync(self) -> bool:
        """Whether ``put`` returns only when the record is durable."""

    async def put(self, form: StoredForm) -> PutResult: ...

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Blocking work of the broker itself, on a worker thread."""

    async def run_cold(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """A read that a client asked for, on a worker thread of another pool."""

    async def run_long(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """A long computation that a client asked for, on a thread of its own; one at a time."""


async def is_durable(store_loop: StoreAccess, physical_offset: int) -> bool:
    """Whether the log is durable up to an offset; in ASYNC_FLUSH it is made so.

    Where copies are waited for they must have it too: what they lack is cut off if one of them becomes the master.
    """
    store = store_loop.store
    if store.flushed_offset < physical_offset and not store_loop.waits_for_sync:
        await store_loop.run(store.flush)
    return store.lasting_offset >= physical_offset


async def run_to_end(store_loop: StoreAccess, function: Callable[..., _T], *arguments: Any) -> _T:
    """``store_loop.run`` for work that changes shared state: who is cancelled meanwhile still waits for its end."""
    work = asyncio.ensure_future(store_loop.run(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
