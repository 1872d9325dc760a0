"""A stretch of one queue, read with several pulls on their way at once.

Offsets of a queue are dense, so the pull after the next can be sent before the next is answered: the stretch is cut
into *windows*, each as many messages as the broker gives in one reply, and some windows are under way at any time.
What a short reply leaves of its window is asked for again, by that window; windows are handed out in order. The size
of a window is learned: the first pull asks for a lot and shows what the broker gives; later ones follow it down when
replies come short and try more when they never do.

Where an offset has no message there are two explanations, and they are kept apart. A *gap* holds none and never did
(the filler in front of a queue): reading goes on behind it. A *loss* is a message that was there when the reading was
planned: deleted by retention, or gone with the tail of a broker that crashed. That is an error unless the caller said
otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from struct import Struct
from typing import Final, NamedTuple

from flaremq.client.scan.queue_holes import QueueHoles
from flaremq.client.scan.queue_pulls import COUNT_MAX, Patience, Pulled, QueuePlace, QueuePulls, is_master
from flaremq.errors import RemoteProtocolError, UnavailableError
from flaremq.message.sys_flag import INNER_BATCH
from flaremq.message.tags import ALL_TAGS, SEPARATOR
from flaremq.protocol.codes import ResponseCode

_log = logging.getLogger(__name__)
_PLACE: Final = Struct(">i 16x q 8x i")  # size, queue offset and flags of a record, what lies between them left out
_FILTER_WINDOW: Final = 800  # queue entries a broker looks at for one filtered pull (maxFilterMessageSize)
_FIRST_GROWTH: Final = 16  # full windows in a row before a larger one is tried
_WAS_DELETED: Final = frozenset(("MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL"))


class Piece(NamedTuple):
    """Records of the offsets [start, end), back to back."""

    records: bytes
    start: int
    end: int
    is_exact: bool  # False if records may lie outside of [start, end) and have to be left out


class SpanReader:
    """Reads one stretch. Event loop thread only."""

    def __init__(
        self,
        pulls: QueuePulls,
        queue: QueuePlace,
        offsets: range,
        *,
        tags: frozenset[str] = frozenset(),
        depth: Callable[[int], int] = lambda window_bytes: 4,
        fail_on_data_loss: bool = True,
        holes: QueueHoles | None = None,
    ) -> None:
        self._pulls = pulls
        self._queue = queue
        self._start = offsets.start
        self._end = offsets.stop
        self._expression = SEPARATOR.join(sorted(tags)) if tags else ALL_TAGS
        self._has_filter = bool(tags)
        self._depth = depth
        self._fail_on_data_loss = fail_on_data_loss
        self._window = _FILTER_WINDOW
        self._full = 0  # windows in a row that one reply filled
        self._growth = _FIRST_GROWTH
        self._window_bytes = 0  # of a late one
        self._holes = holes  # asked whether what is passed over is a gap

    async def pieces(self) -> AsyncIterator[Piece]:
        """Everything, in order."""
        position = self._start
        if not self._has_filter and position < self._end:
            piece, position = await self._step(position, self._end, COUNT_MAX)
            self._window = max(1, min(position - self._start, COUNT_MAX))
            if piece is not None:
                self._window_bytes = len(piece.records)
                yield piece
        pending: deque[asyncio.Task[list[Piece]]] = deque()
        try:
            while position < self._end or pending:
                while position < self._end and len(pending) < self._depth(self._window_bytes):
                    stop = min(position + self._window, self._end)
                    pending.append(asyncio.create_task(self._read_window(position, stop)))
                    position = stop
                pieces = await pending.popleft()
                self._window_bytes = sum(len(piece.records) for piece in pieces) or self._window_bytes
                for piece in pieces:
                    yield piece
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _read_window(self, start: int, stop: int) -> list[Piece]:
        pieces: list[Piece] = []
        size, at = stop - start, start
        while at < stop:
            began = at
            count = COUNT_MAX if self._has_filter else stop - at
            piece, at = await self._step(at, stop, count)
            if piece is not None:
                pieces.append(piece)
            if began == start and not self._has_filter and size >= self._window:
                self._learn(size, at - start)
        return pieces

    def _learn(self, asked: int, got: int) -> None:
        if got >= asked:
            self._full += 1
            if self._full >= self._growth and self._window < COUNT_MAX:
                self._full = 0
                self._window = min(2 * self._window, COUNT_MAX)
            return
        if self._full == 0:
            self._growth = min(2 * self._growth, 1024)  # the larger window was no good: ask more seldom
        self._full = 0
        self._window = max(1, got)

    async def _step(self, at: int, stop: int, count: int) -> tuple[Piece | None, int]:
        """One answer: its records within [at, stop) and the offset to go on at, at least one further."""
        patience = Patience(self._pulls.retry_seconds)
        while True:
            pulled = await self._pulls.pull(self._queue, at, count, self._expression)
            if at < pulled.min_offset:
                self._lose(at, min(stop, pulled.min_offset), "retention deleted them")
                if not pulled.records:
                    return None, min(stop, pulled.min_offset)
            if pulled.code == ResponseCode.SUCCESS:
                if pulled.next_offset <= at or not pulled.records:
                    raise RemoteProtocolError(f"the reply to a pull of {self._name} at {at} does not go on")
                return _piece(pulled, at, stop)
            is_moved = pulled.code == ResponseCode.PULL_OFFSET_MOVED
            if at < pulled.max_offset and pulled.next_offset > at and not is_moved:
                after = min(stop, pulled.next_offset)
                if pulled.remark in _WAS_DELETED:
                    self._lose(at, after, "the broker deleted them just now, or they are damaged there")
                elif self._holes is not None and self._fail_on_data_loss and not self._has_filter:
                    await self._holes.check(self._queue, at, after)
                return None, after
            # Nothing there yet (a broker that just started, a slave that lags), or a refusal for the moment.
            if not await patience.wait():
                return None, self._give_up(pulled, at, stop)

    def _give_up(self, pulled: Pulled, at: int, stop: int) -> int:
        if at < pulled.max_offset or not is_master(pulled):
            raise UnavailableError(
                f"broker {self._queue.broker} gives nothing of {self._name} from offset {at} on: {pulled.remark}"
            )
        self._lose(at, stop, f"the queue ends at {pulled.max_offset} now")
        return stop

    def _lose(self, start: int, end: int, why: str) -> None:
        sentence = f"messages {start} to {end - 1} of {self._name} are gone: {why}"
        if self._fail_on_data_loss:
            raise UnavailableError(f"{sentence}. Set failOnDataLoss=false to read what is left")
        _log.warning("%s", sentence)

    @property
    def _name(self) -> str:
        queue = self._queue
        return f"queue {queue.queue_id} of topic {queue.topic} on {queue.broker}"


def _piece(pulled: Pulled, at: int, stop: int) -> tuple[Piece | None, int]:
    records, after = pulled.records, min(pulled.next_offset, stop)
    if len(records) < _PLACE.size:
        raise RemoteProtocolError(f"{len(records)} bytes in the reply to a pull are no record")
    _, first, _ = _PLACE.unpack_from(records)
    is_exact: bool = first >= at  # else it is a batch that begins before
    if pulled.next_offset > stop:
        records, ends_whole = _until(records, stop)
        is_exact = is_exact and ends_whole
    return (Piece(records, at, after, is_exact) if records else None), after


def _until(records: bytes, stop: int) -> tuple[bytes, bool]:
    """The records in front of the first whose offset is ``stop`` or more, and whether none of them reaches beyond.

    What is no record is left to whoever decodes it.
    """
    at, end, flags = 0, len(records) - _PLACE.size, 0
    while at <= end:
        size, offset, following = _PLACE.unpack_from(records, at)
        if offset >= stop or size <= 0:
            break
        flags = following
        at += size
    return records[:at], not flags & INNER_BATCH
