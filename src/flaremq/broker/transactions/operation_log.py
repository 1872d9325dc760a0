"""OperationLog: the op topic, where it is noted which half messages are done with.

A note is written at once; those that come while it is under way share the next record (up to 4 KiB of offsets, as
RocketMQ batches them). So one transaction alone waits for one append, and thousands at a time cost few.

A note that could not be written is kept and tried again: until it is stored, or until the half cursor has passed the
offset, this process is the only one that knows the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from flaremq.broker.store_loop.access import StoreAccess
from flaremq.clock import Clock
from flaremq.errors import CorruptionError, FlareMQError
from flaremq.message.topics import OP_HALF_TOPIC
from flaremq.message.transaction import operation, parse_operation
from flaremq.storage.get.get_result import GetResult

_log = logging.getLogger(__name__)
_READ_COUNT: Final = 256
_READ_BYTES: Final = 1 << 20


class OperationLog:
    """Writes and reads the op topic's one queue. Event loop only."""

    def __init__(
        self, store_loop: StoreAccess, clock: Clock, store_host: bytes, *, body_bytes_max: Callable[[], int]
    ) -> None:
        self._store_loop = store_loop
        self._clock = clock
        self._store_host = store_host
        self._body_bytes_max = body_bytes_max
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._writer: asyncio.Task[None] | None = None
        self._records: deque[tuple[int, int]] = deque()  # (queue offset of an op record, highest half offset in it)
        self.unwritten: set[int] = set()  # half offsets whose note could not be stored
        self.cursor = 0  # op records below it say nothing that matters any more
        self.reach = 0  # end of the last op record written

    # Reading, at start

    async def load(self, cursor: int, finished: Callable[[list[int]], None]) -> None:
        """Hand over what was noted from an op offset on."""
        store = self._store_loop.store
        low, high = store.min_offset(OP_HALF_TOPIC, 0), store.max_offset(OP_HALF_TOPIC, 0)
        self.cursor = position = min(max(cursor, low), high)
        while position < high:
            found = await self._store_loop.run(self._read, position)
            for record in found.messages:
                try:
                    offsets = parse_operation(bytes(record.stored_body))
                except CorruptionError as error:
                    _log.error("%s says nothing: %s", record.message_id, error)
                    continue
                finished(offsets)
                self._records.append((record.queue_offset, max(offsets, default=-1)))
            if found.next_offset <= position:
                break
            position = found.next_offset

    def _read(self, queue_offset: int) -> GetResult:
        return self._store_loop.store.get(OP_HALF_TOPIC, 0, queue_offset, _READ_COUNT, max_bytes=_READ_BYTES)

    def passed(self, half_cursor: int) -> None:
        """All half messages below are done with and remembered so: notes on them only are not needed any more."""
        records = self._records
        while records and records[0][1] < half_cursor:
            self.cursor = records.popleft()[0] + 1
        if self.unwritten:
            self.unwritten = {offset for offset in self.unwritten if offset >= half_cursor}

    # Writing

    async def mark(self, half_offset: int) -> bool:
        """Note that a half message is done with; True when that is durable, False if it could not be written now."""
        future = self._waiting.get(half_offset)
        if future is None:
            future = self._waiting[half_offset] = asyncio.get_running_loop().create_future()
        if self._writer is None:
            self._writer = asyncio.ensure_future(self._write())
        return await asyncio.shield(future)

    async def retry(self) -> None:
        """Write once more what could not be written."""
        if self.unwritten:
            await asyncio.gather(*(self.mark(offset) for offset in sorted(self.unwritten)))

    async def _write(self) -> None:
        try:
            while self._waiting:
                offsets = self._batch()
                futures = [self._waiting.pop(offset) for offset in offsets]
                stored = await self._put(offsets)
                if stored:
                    self.unwritten.difference_update(offsets)
                else:
                    self.unwritten.update(offsets)
                for future in futures:
                    future.set_result(stored)
        finally:
            self._writer = None

    def _batch(self) -> list[int]:
        offsets: list[int] = []
        size = 0
        body_bytes_max = self._body_bytes_max()
        for offset in self._waiting:
            size += len(str(offset)) + 1
            if offsets and size > body_bytes_max:
                break
            offsets.append(offset)
        return offsets

    async def _put(self, offsets: list[int]) -> bool:
        form = operation(offsets, queue_id=0, born_timestamp=self._clock.now_ms(), born_host=self._store_host)
        try:
            result = await self._store_loop.put(replace(form, wait_store_msg_ok=True))
        except FlareMQError as error:
            _log.warning("%d outcomes of transactions are not noted yet: %s", len(offsets), error)
            return False
        if not result.status.stored:
            _log.warning("%d outcomes of transactions are not noted yet: %s", len(offsets), result)
            return False
        self._records.append((result.queue_offset, max(offsets)))
        self.reach = max(self.reach, result.physical_offset + result.size)
        return True
