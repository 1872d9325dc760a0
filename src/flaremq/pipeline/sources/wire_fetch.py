"""Spans of many queues fetched side by side in the background, handed over in chunks.

Memory is bounded: each of the spans under way gathers one chunk, its pulls on their way are counted by their bytes, and
finished chunks wait in a short line; when the line is full the fetching pauses. Nothing waits for a chunk that nobody
will take: chunks leave the line in the order they were finished, whichever queue they are of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Final, NamedTuple

import pyarrow as pa

from flaremq.client.blocking import LoopThread
from flaremq.client.scan.queue_holes import QueueHoles
from flaremq.client.scan.queue_pulls import QueuePulls
from flaremq.client.scan.span_reading import Piece, SpanReader
from flaremq.pipeline.model.source import ReadRequest
from flaremq.pipeline.model.spans import Span
from flaremq.storage.arrow.bodies import BodyReader
from flaremq.storage.arrow.records import decode_records

_SPANS_AT_ONCE: Final = 8
_PULLS_AT_ONCE: Final = 16
_LINE: Final = 4  # chunks that wait to be decoded


class Chunk(NamedTuple):
    """Consecutive records of a span."""

    span: Span
    start: int
    end: int
    records: bytes

    def batches(self, request: ReadRequest, bodies: BodyReader) -> Iterator[pa.RecordBatch]:
        queue = self.span.queue
        return decode_records(
            self.records,
            request.schema,
            broker=queue.broker,
            topic=queue.topic,
            queue_id=queue.queue_id,
            start=self.start,
            end=self.end,
            tags=request.tags,
            fail_on_data_loss=request.fail_on_data_loss,
            origin=f"what broker {queue.broker} sent of {queue.topic} queue {queue.queue_id}",
            bodies=bodies,
        )


class WireFetch:
    """One reading of some spans. Iterate from one thread; close it when done, early or not."""

    def __init__(
        self,
        loop: LoopThread,
        pulls: QueuePulls,
        holes: QueueHoles,
        spans: Sequence[Span],
        *,
        tags: frozenset[str],
        fail_on_data_loss: bool,
        bytes_max: int,
    ) -> None:
        self._loop = loop
        self._pulls = pulls
        self._holes = holes
        self._spans = iter(spans)
        self._tags = tags
        self._fail_on_data_loss = fail_on_data_loss
        self._workers = min(_SPANS_AT_ONCE, len(spans))
        # Half of the memory is for the chunks that are gathered or wait, the rest for pulls on their way and decoding.
        self._chunk_bytes = bytes_max // (2 * (_SPANS_AT_ONCE + _LINE))
        self._pull_bytes = bytes_max // 4
        self._line = asyncio.Semaphore(_LINE)
        self._ready: SimpleQueue[Chunk | BaseException | None] = SimpleQueue()
        self._running = loop.start(self._run())

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            chunk = self._ready.get()
            if chunk is None:
                return
            if isinstance(chunk, BaseException):
                raise chunk
            self._loop.loop.call_soon_threadsafe(self._line.release)
            yield chunk

    def close(self) -> None:
        self._running.cancel()

    async def _run(self) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        outcome: BaseException | None = None
        try:
            await asyncio.gather(*workers)
        except BaseException as error:
            outcome = error
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            if not isinstance(error, Exception):
                raise
        finally:
            self._ready.put(outcome)

    async def _work(self) -> None:
        for span in self._spans:
            await self._fetch(span)
        self._workers -= 1

    async def _fetch(self, span: Span) -> None:
        reader = SpanReader(
            self._pulls,
            span.queue,
            range(span.start, span.end),
            tags=self._tags,
            depth=self._depth,
            fail_on_data_loss=self._fail_on_data_loss,
            holes=self._holes,
        )
        gathered: list[Piece] = []
        size = 0
        async for piece in reader.pieces():
            if gathered and not (piece.is_exact and gathered[-1].is_exact):
                await self._hand_over(span, gathered)
                gathered, size = [], 0
            gathered.append(piece)
            size += len(piece.records)
            if size >= self._chunk_bytes:
                await self._hand_over(span, gathered)
                gathered, size = [], 0
        if gathered:
            await self._hand_over(span, gathered)

    async def _hand_over(self, span: Span, pieces: list[Piece]) -> None:
        await self._line.acquire()
        records = pieces[0].records if len(pieces) == 1 else b"".join([piece.records for piece in pieces])
        self._ready.put(Chunk(span, pieces[0].start, pieces[-1].end, records))

    def _depth(self, window_bytes: int) -> int:
        """Pulls of one span that may be on their way: its share of them, and of the memory they will take."""
        share = max(1, self._workers)
        fitting = self._pull_bytes // share // max(window_bytes, 1)
        return max(1, min(max(2, _PULLS_AT_ONCE // share), fitting))
