"""A client's end of a connection: replies are large, so they are received where they are taken apart."""

from __future__ import annotations

import asyncio
from typing import Any

from flaremq.protocol.frame import REPLY_HEADER_SIZE_MAX, FrameReader
from flaremq.remoting.connection import Connection


class ClientConnection(Connection, asyncio.BufferedProtocol):
    """A connection that asks and is asked. Event loop thread only."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._decoder = self._reader = FrameReader(header_limit=REPLY_HEADER_SIZE_MAX)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_activity = self._received_at = now = self._loop.time()
        self._reads.value += 1
        commands = self._reader.received(nbytes)
        self._take_in(commands, now, has_moved=bool(commands))

    def data_received(self, data: bytes) -> None:
        """For transports that read by themselves, and tests."""
        left = memoryview(data)
        while len(left):
            room = self.get_buffer(len(left))
            count = min(len(room), len(left))
            room[:count] = left[:count]
            self.buffer_updated(count)
            left = left[count:]
