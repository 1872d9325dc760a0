"""A client of the port that sends what it likes and reads when it likes; for what grpcio's client never does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hpack import Decoder, Encoder

from flaremq.grpc.framing import prefixed
from flaremq.grpc.http2 import frames
from flaremq.grpc.messages.methods import METHODS
from tests.grpc.http2_lab import Frame, frame


class RawClient:
    """One connection. ``found`` are the frames that came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.encoder, self.decoder = Encoder(), Decoder()
        self.number = -1

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    def hello(self, **settings: int) -> None:
        body = b"".join(frames.SETTING.pack(frames.Setting[name], value) for name, value in settings.items())
        self.send(frames.PREFACE, frame(frames.SETTINGS, 0, 0, body))

    def begin(self, method: str, *, client: str = "c1", more: tuple[tuple[str, str], ...] = ()) -> int:
        self.number += 2
        fields = [(":method", "POST"), (":scheme", "http"), (":path", METHODS[method].path)]
        fields += [("content-type", "application/grpc"), ("x-mq-client-id", client), *more]
        self.send(frame(frames.HEADERS, frames.END_HEADERS, self.number, self.encoder.encode(fields)))
        return self.number

    def data(self, number: int, payload: bytes, *, end: bool = False) -> None:
        """In frames of 16 KiB."""
        for at in range(0, max(1, len(payload)), 16_384):
            part = payload[at : at + 16_384]
            is_last = at + 16_384 >= len(payload)
            self.send(frame(frames.DATA, frames.END_STREAM if end and is_last else 0, number, part))

    def call(self, method: str, request: Any, *, end: bool = True, client: str = "c1") -> int:
        number = self.begin(method, client=client)
        self.data(number, prefixed(request.SerializeToString()), end=end)
        return number

    async def frame(self) -> Frame | None:
        """The next one; None at the end."""
        try:
            head = await self.reader.readexactly(9)
            payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Frame(head[3], head[4], int.from_bytes(head[5:], "big"), payload)

    async def until(self, kind: int, stream: int | None = None) -> Frame:
        async with asyncio.timeout(10):
            while (found := await self.frame()) is not None:
                if found.kind == frames.HEADERS:
                    self.fields = dict(self.decoder.decode(found.payload))
                if found.kind == kind and stream in (None, found.stream):
                    return found
        raise AssertionError(f"the connection ended before a frame of kind {kind}")

    async def status_of(self, stream: int) -> str:
        """The status of gRPC with which a call ends."""
        while True:
            found = await self.until(frames.HEADERS, stream)
            if found.flags & frames.END_STREAM:
                return str(self.fields.get("grpc-status", self.fields.get(":status")))

    async def statuses(self, count: int) -> dict[int, str]:
        """Those of so many calls, in whatever order they end."""
        found: dict[int, str] = {}
        while len(found) < count:
            last = await self.until(frames.HEADERS)
            if last.flags & frames.END_STREAM:
                found[last.stream] = str(self.fields.get("grpc-status", self.fields.get(":status")))
        return found

    async def is_closed(self) -> bool:
        async with asyncio.timeout(10):
            while await self.frame() is not None:
                pass
        return True


@contextlib.asynccontextmanager
async def raw_client(port: int, *, hello: bool = True) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = RawClient(reader, writer)
    if hello:
        client.hello()
    try:
        yield client
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
