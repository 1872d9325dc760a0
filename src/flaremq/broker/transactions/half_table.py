"""HalfTable: what is known of the half topic's messages. Memory only; a crash loses nothing that is not read again.

* The *cursor*: every half message below it is done with.
* *Finished* offsets at or above it, from the moment their outcome is known (not only when it is noted in the op topic:
  a round of checks that runs meanwhile must not ask about them).
* *Copies*: where the live copy of a message is that was appended again, by its unique key and the address it was sent
  from (a key can be anybody's). An answer that names an older copy, because it was on its way, ends the live one; so no
  transaction is committed once by each of its copies.
* *Claims*: offsets that are being ended or copied; a caller that wants the other of the two waits, then looks again.

All of it is about offsets between the cursor and the end of the half topic, so :data:`HALF_MESSAGES_MAX` of those bound
it: beyond, new half messages are refused. Copies are not, since they are how the cursor moves on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from flaremq.message.message_ext import MessageExt

HALF_MESSAGES_MAX: Final = 1_000_000


Identity = tuple[str, bytes]  # unique key, address of the sender


def identity_of(record: MessageExt) -> Identity | None:
    """What all records of one half message have in common; None without a unique key."""
    key = record.uniq_key
    return None if key is None else (key, record.born_host_bytes)


class HalfTable:
    """The state of the transactions of one broker. Event loop only."""

    def __init__(self) -> None:
        self.cursor = 0
        self._finished: set[int] = set()
        self._copies: dict[Identity, int] = {}
        self._claims: dict[int, asyncio.Future[None]] = {}

    @property
    def finished_count(self) -> int:
        """Offsets that are done with although one before them is not."""
        return len(self._finished)

    def has_room(self, end: int) -> bool:
        """Whether another half message may come; ``end`` is that of the half topic."""
        return end - self.cursor < HALF_MESSAGES_MAX

    def is_open(self, offset: int) -> bool:
        return offset >= self.cursor and offset not in self._finished

    def finish(self, offsets: Iterable[int]) -> None:
        """These are done with."""
        self._finished.update(offset for offset in offsets if offset >= self.cursor)
        while self.cursor in self._finished:
            self._finished.remove(self.cursor)
            self.cursor += 1

    def skip_to(self, offset: int, start: int) -> None:
        """Nothing can be read from ``start`` up to ``offset``: the log has expired there, or is damaged."""
        if start <= self.cursor < offset:
            self.cursor = offset
            self._finished = {known for known in self._finished if known >= offset}
            self.finish(())
        elif offset > self.cursor:
            self.finish(range(start, offset))

    def forget_copy(self, record: MessageExt, offset: int) -> None:
        """The copy at ``offset`` has come to its end."""
        key = identity_of(record)
        if key is not None and self._copies.get(key) == offset:
            del self._copies[key]

    def moved(self, record: MessageExt, offset: int) -> None:
        """A message was appended again; its older record is history."""
        key = identity_of(record)
        if key is not None:
            self._copies[key] = offset

    def live_offset(self, record: MessageExt) -> int | None:
        """Where the message of a half record is open; None if it is not."""
        offset = record.queue_offset
        key = identity_of(record)
        if key is not None:
            offset = max(offset, self._copies.get(key, offset))
        return offset if self.is_open(offset) else None

    @contextmanager
    def claim(self, offset: int) -> Iterator[None]:
        """Keep others off an offset."""
        assert offset not in self._claims
        future = self._claims[offset] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._claims[offset]
            future.set_result(None)

    def is_claimed(self, offset: int) -> bool:
        return offset in self._claims

    async def released(self, offset: int) -> None:
        """Wait until nobody claims an offset."""
        while (future := self._claims.get(offset)) is not None:
            await asyncio.shield(future)
