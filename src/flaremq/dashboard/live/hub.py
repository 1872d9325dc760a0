"""The hub: one look at a page serves all who watch it, as the same bytes.

Each stream has a short queue. Whoever does not read it is dropped, and comes back by itself when it can: a slow browser
costs a few kilobytes, never time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

from flaremq.dashboard.live.delta import delta
from flaremq.errors import FlareMQError

_log = logging.getLogger(__name__)
STREAMS_MAX: Final = 256
_QUEUE_MAX: Final = 16
COMMENT_SECONDS: Final = 15.0
Look = Callable[[], Awaitable[dict[str, Any]]]
Write = Callable[[Any], bytes]


def event(name: str, data: bytes) -> bytes:
    """One event of a stream; JSON has no line breaks of its own."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


class Stream:
    """One reader. ``drop`` is called from the hub, ``events`` read by the connection."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_MAX)
        self.dropped = asyncio.Event()
        self.farewell = b""

    def put(self, data: bytes) -> None:
        try:
            self._queue.put_nowait(data)
        except asyncio.QueueFull:
            self.drop("slow")

    def drop(self, code: str) -> None:
        if not self.dropped.is_set():
            self.farewell = event("bye", b'{"code":"' + code.encode() + b'"}')
            self.dropped.set()

    async def events(self) -> AsyncIterator[bytes]:
        """What is to be sent; ends when the stream was dropped. A comment now and then finds out who has gone."""
        gone = asyncio.ensure_future(self.dropped.wait())
        getting: asyncio.Future[bytes | None] | None = None
        try:
            while not gone.done():
                getting = asyncio.ensure_future(self._queue.get())
                done, _ = await asyncio.wait(
                    (getting, gone), timeout=COMMENT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if getting in done:
                    data = getting.result()
                    if data is not None:
                        yield data
                    continue
                getting.cancel()
                if not done:
                    yield b":\n\n"
        finally:
            gone.cancel()
            if getting is not None:
                getting.cancel()  # whoever reads has left while it waited


class Channel:
    """One page as somebody sees it, looked at again and again while there is a stream."""

    def __init__(self, look: Look, seconds: float, write: Write) -> None:
        self._look = look
        self._seconds = seconds
        self._write = write
        self._last: dict[str, Any] | None = None
        self._snapshot = b""
        self.streams: set[Stream] = set()
        self.task: asyncio.Task[None] | None = None

    async def join(self, stream: Stream) -> None:
        """The first look of a channel may fail: that is the answer then."""
        if self._last is None:
            self._last = await self._look()
            self._snapshot = b""
        self.streams.add(stream)
        stream.put(self._current())
        if self.task is None:
            self.task = asyncio.create_task(self._run())

    def _current(self) -> bytes:
        if not self._snapshot:
            self._snapshot = event("snapshot", self._write(self._last))
        return self._snapshot

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time() + self._seconds
        while True:
            await asyncio.sleep(max(0.05, next_look - loop.time()))
            next_look = max(loop.time(), next_look) + self._seconds
            try:
                found = await self._look()
            except FlareMQError:
                continue  # the page gets older, and says so
            except Exception:
                _log.exception("a live page failed")
                continue
            changed, appended = delta(self._last, found)
            self._last, self._snapshot = found, b""
            change: dict[str, Any] = {"as_of": found.get("as_of"), "set": changed}
            if appended:
                change["append"] = appended
            data = event("change", self._write(change))
            for stream in list(self.streams):
                stream.put(data)


class Hub:
    """All channels. Event loop thread only."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._channels: dict[str, Channel] = {}
        self._streams: set[Stream] = set()
        self._is_closed = False

    @property
    def streams(self) -> set[Stream]:
        return set(self._streams)

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    @property
    def is_full(self) -> bool:
        return len(self._streams) >= STREAMS_MAX or self._is_closed

    @contextlib.asynccontextmanager
    async def subscribed(self, key: str, look: Look, seconds: float) -> AsyncIterator[Stream]:
        """A stream of the page that ``key`` names; ``look`` makes it."""
        stream = Stream()
        self._streams.add(stream)
        channel = self._channels.setdefault(key, Channel(look, seconds, self._write))
        try:
            await channel.join(stream)
            yield stream
        finally:
            self._streams.discard(stream)
            channel.streams.discard(stream)
            if not channel.streams and self._channels.get(key) is channel:
                del self._channels[key]
                if channel.task is not None:
                    channel.task.cancel()

    @contextlib.contextmanager
    def counted(self, stream: Stream) -> Iterator[Stream]:
        """A stream with a source of its own, such as the tail of a topic."""
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)

    def close(self) -> None:
        self._is_closed = True
        for stream in list(self._streams):
            stream.drop("stopping")
        for channel in self._channels.values():
            if channel.task is not None:
                channel.task.cancel()
