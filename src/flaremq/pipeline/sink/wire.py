"""The sink over the wire: parcels go to brokers from an event loop on a thread of its own.

The task encodes the next rows while the last ones are on their way; what waits in between is bounded.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Final

from flaremq.client.blocking import LoopThread
from flaremq.client.streams.ledger import StreamName
from flaremq.client.streams.sending import OpenStream, Parcel, StreamWire
from flaremq.errors import InvalidArgumentError
from flaremq.message.write_stream import Stored
from flaremq.pipeline.sink.options import SinkOptions
from flaremq.pipeline.sink.task import LaneKey, TaskIdentity

_CHUNK_BYTES: Final = 4 << 20  # parcels that are handed over together


class WireTarget:
    """Writes lanes to brokers. Use inside ``with``; one thread."""

    def __init__(self, options: SinkOptions, task: TaskIdentity | None, *, begun_ms: int = 0) -> None:
        """``begun_ms`` is a time before the first attempt at the task, 0 if nobody knows one."""
        self._task = task
        self._begun_ms = begun_ms
        self._thread: LoopThread  # while it is open
        self._wire = StreamWire(
            options.name_server,
            group=options.producer_group,
            options=options.producer_options(),
            window=options.requests_in_flight,
            patience_seconds=options.retry_timeout_ms / 1000,
            sends_in_doubt=options.sends_in_doubt,
        )
        self._token = secrets.token_hex(8)
        self._streams: dict[LaneKey, OpenStream] = {}
        self._waiting: list[tuple[OpenStream, Parcel]] = []
        self._waiting_bytes = 0
        self._sending: Future[None] | None = None

    def __enter__(self) -> WireTarget:
        self._thread = LoopThread("flaremq-sink")
        try:
            self._thread.call(self._wire.start())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._sending is not None:
                self._sending.cancel()
            self._thread.call(self._close())
        finally:
            self._thread.close()

    def check_topic(self, topic: str) -> None:
        """Find out whether the cluster can be reached and the topic exists or would be created."""
        if topic:
            self._thread.call(self._wire.queues(topic))
        else:
            self._thread.call(self._wire.instance.routes.refresh(self._wire.options.create_topic_key))

    def find_begun(self, lanes: Sequence[tuple[LaneKey, TaskIdentity]]) -> list[tuple[LaneKey, TaskIdentity]]:
        """Those of the lanes that have a first message, without becoming anybody's writer."""
        names = [
            StreamName(lane.topic, lane.stream(task), lane.stem(task), self._token, lane.is_delayed)
            for lane, task in lanes
        ]
        begun = self._thread.call(self._wire.find_begun(names))
        return [lane for lane, name in zip(lanes, names, strict=True) if name in begun]

    # As a SinkTarget

    def open(self, lane: LaneKey) -> Stored:
        assert self._task is not None
        stream = self._thread.call(self._open(lane, self._task))
        self._streams[lane] = stream
        return stream.stored

    def chains(self, lane: LaneKey, numbers: Iterable[int]) -> dict[int, int]:
        return self._thread.call(self._streams[lane].chains(list(numbers)))

    def put(self, lane: LaneKey, parcel: Parcel) -> None:
        self._waiting.append((self._streams[lane], parcel))
        self._waiting_bytes += len(parcel.body)
        if self._waiting_bytes >= _CHUNK_BYTES:
            self._hand_over()

    def finish(self) -> None:
        self._hand_over()
        self._thread.call(self._finish())

    # On the task's thread

    def _hand_over(self) -> None:
        if self._sending is not None:
            self._sending.result()
        parcels, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._sending = self._thread.start(_send_all(parcels))

    # On the event loop

    async def _close(self) -> None:
        for stream in self._streams.values():
            stream.abandon()
        await self._wire.close()

    async def _open(self, lane: LaneKey, task: TaskIdentity) -> OpenStream:
        queues = await self._wire.queues(lane.topic)
        if lane.queue_id >= 0:
            chosen = [queue for queue in queues if queue.queue_id == lane.queue_id]
            if not chosen:
                highest = max(queue.queue_id for queue in queues)
                raise InvalidArgumentError(
                    f"topic {lane.topic!r} has no queue {lane.queue_id} that can be written to; it has 0 to {highest}"
                )
            queues = chosen
        name = StreamName(lane.topic, lane.stream(task), lane.stem(task), self._token, lane.is_delayed, self._begun_ms)
        return await self._wire.open(name, queues[lane.queue_index(task, len(queues))])

    async def _finish(self) -> None:
        if self._sending is not None:
            await asyncio.wrap_future(self._sending)
        await asyncio.gather(*(stream.finish() for stream in self._streams.values()))


async def _send_all(parcels: list[tuple[OpenStream, Parcel]]) -> None:
    for stream, parcel in parcels:
        await stream.put(parcel)
