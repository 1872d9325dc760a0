"""What a broker does with what it reads: the connection, its handlers and its store, without sockets.

A real broker runs in the worker's own event loop. Bytes go into a ``Connection`` as a transport would give them, and a
transport that only counts takes the replies. Frames are made here byte by byte, so that the same bytes meet any tree.
"""

from __future__ import annotations

import asyncio
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cpu.cases import Slice
from benchmarks.messages import make_body

if TYPE_CHECKING:
    from flaremq.testing import EphemeralBroker

_TOPIC = "ingest"
_QUEUES = 8
_READ_BYTES = 65_536  # what a socket hands over in one go when a client is far ahead
_SEND, _SEND_BATCH, _PULL = 310, 320, 11
_PROPERTIES = "UNIQ_KEY\x01C0A8000100002A9F0000%016X\x02WAIT\x01true\x02"


class Transport(asyncio.Transport):
    """Takes everything at once and counts it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 40_000), "sockname": ("127.0.0.1", 10_911)}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += len(data)

    def writelines(self, parts: Any) -> None:
        self.written += sum(map(len, parts))

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class Lab:
    """A broker with one connection, on an event loop that runs only while a slice does."""

    def __init__(self, folder: Path) -> None:
        from flaremq.clock import SystemClock
        from flaremq.remoting.connection import Connection
        from flaremq.remoting.options import RemotingOptions
        from flaremq.testing import ephemeral_broker

        self.loop = new_loop()
        self.broker: EphemeralBroker = ephemeral_broker(
            clock=SystemClock(), path=str(folder), flushDiskType="ASYNC_FLUSH", mappedFileSizeCommitLog=1 << 30
        )
        self.transport = Transport()

        async def begin() -> Connection:
            service = (await self.broker.__aenter__()).broker
            connection = Connection(service.handlers.table, RemotingOptions(), opened=lambda _: True)
            connection.connection_made(self.transport)
            return connection

        self.connection = self.loop.run_until_complete(begin())
        warm = b"".join(send(number, 1024) for number in range(4_000))  # makes the topic, loads what is loaded late
        self.feed(warm)
        time.sleep(1.5)
        self.feed(warm)

    def feed(self, data: bytes, *, chunk: int = _READ_BYTES) -> int:
        """Give the bytes to the connection, read by read; bytes of replies."""
        before = self.transport.written
        self.loop.run_until_complete(self._feed(data, chunk))
        if self.transport.closed:
            raise RuntimeError("the broker closed the connection")
        return self.transport.written - before

    async def _feed(self, data: bytes, chunk: int) -> None:
        connection: Any = self.connection
        for start in range(0, len(data), chunk):
            piece = data[start : start + chunk]
            if isinstance(connection, asyncio.BufferedProtocol):
                _fill(connection, piece)
            else:
                connection.data_received(piece)
            await asyncio.sleep(0)
        service = self.broker.broker
        for _ in range(50):
            await asyncio.sleep(0)
        while service.store_loop.store.dispatch_lag_bytes:
            await asyncio.sleep(0.001)


def ingest(folder: Path, *, size: int, count: int, sends: int = 0) -> Slice:
    """Plain sends as far as their replies: so many in a read, or reads that end anywhere in a frame."""
    lab = Lab(folder)
    chunk = sends * len(send(0, size)) or _READ_BYTES
    data = b"".join(send(number, size) for number in range(count))
    expected = lab.feed(data, chunk=chunk)

    def work() -> float:
        began = time.process_time()
        answered = lab.feed(data, chunk=chunk)
        micros = (time.process_time() - began) / count * 1e6
        if not 0.9 * expected < answered < 1.1 * expected:  # offsets grow, so replies may by a digit
            raise RuntimeError(f"{answered} bytes of replies instead of {expected}")
        return micros

    return work


def ingest_batches(folder: Path, *, size: int, count: int) -> Slice:
    """Batches of 32; the unit is one message."""
    lab = Lab(folder)
    data = b"".join(send_batch(number, size) for number in range(count))
    lab.feed(data)

    def work() -> float:
        began = time.process_time()
        if not lab.feed(data):
            raise RuntimeError("no replies")
        return (time.process_time() - began) / (32 * count) * 1e6

    return work


def pulls(folder: Path, *, count: int) -> Slice:
    """Pulls of 32 x 1 KB from a backlog, a request a read; the unit is one message."""
    lab = Lab(folder)
    lab.feed(b"".join(send(number, 1024, queue_id=0) for number in range(4_096)))
    requests = [pull(number, number * 32 % 4_064) for number in range(count)]
    data, a_request = b"".join(requests), len(requests[0])

    def work() -> float:
        began = time.process_time()
        answered = lab.feed(data, chunk=a_request)
        micros = (time.process_time() - began) / (32 * count) * 1e6
        if answered < count * 32 * 1024:
            raise RuntimeError(f"{answered} bytes of replies")
        return micros

    return work


def send(number: int, size: int, *, queue_id: int | None = None) -> bytes:
    """A SEND_MESSAGE_V2 as RocketMQ's client writes it with compact headers."""
    ext = _send_fields(queue_id if queue_id is not None else number % _QUEUES, batch=False)
    ext["i"] = _PROPERTIES % number
    return frame(_SEND, number, ext, _body(size))


def send_batch(number: int, size: int) -> bytes:
    ext = _send_fields(number % _QUEUES, batch=True)
    ext["i"] = ""
    body = _body(size)
    messages = []
    for place in range(32):
        properties = (_PROPERTIES % (number * 32 + place)).encode()
        head = struct.pack(">iiiii", 22 + size + len(properties), 0, zlib.crc32(body) & 0x7FFFFFFF, 0, size)
        messages.append(head + body + struct.pack(">h", len(properties)) + properties)
    return frame(_SEND_BATCH, number, ext, b"".join(messages))


def pull(number: int, offset: int) -> bytes:
    ext = {
        "consumerGroup": "bench",
        "topic": _TOPIC,
        "queueId": "0",
        "queueOffset": f"{offset:04}",  # all requests of one length
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
        "subscription": "*",
    }
    return frame(_PULL, number, ext, b"")


def frame(code: int, opaque: int, ext: dict[str, str], body: bytes) -> bytes:
    """A request with the compact header (serialize type 1)."""
    fields = b"".join(_field(name, value) for name, value in ext.items())
    # code, language (Java), version, opaque, flag, remark length, length of the fields
    header = struct.pack(">hbhiiii", code, 0, 399, opaque, 0, 0, len(fields)) + fields
    return struct.pack(">ii", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


def _field(name: str, value: str) -> bytes:
    text = value.encode()
    return struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(text)) + text


def _send_fields(queue_id: int, *, batch: bool) -> dict[str, str]:
    ext = {"a": "bench", "b": _TOPIC, "c": "TBW102", "d": str(_QUEUES), "e": str(queue_id), "f": "0"}
    return ext | {"g": str(int(time.time() * 1000)), "h": "0", "j": "0", "k": "false", "m": str(batch).lower()}


def _body(size: int) -> bytes:
    if size not in _bodies:
        _bodies[size] = make_body(size)
    return _bodies[size]


_bodies: dict[int, bytes] = {}


def _fill(connection: Any, piece: bytes) -> None:
    """As a transport does for a protocol that owns its buffer."""
    while piece:
        room = memoryview(connection.get_buffer(len(piece)))
        taken = min(len(room), len(piece))
        room[:taken] = piece[:taken]
        connection.buffer_updated(taken)
        piece = piece[taken:]


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


CASES: dict[str, dict[str, Callable[[Path], Slice]]] = {
    "ingest": {
        "ingest 1 KB, 64 KiB a read": lambda folder: ingest(folder, size=1024, count=8_000),
        "ingest 128 B, 64 KiB a read": lambda folder: ingest(folder, size=128, count=12_000),
        "ingest 1 KB, 48 whole ones a read": lambda folder: ingest(folder, size=1024, count=9_600, sends=48),
        "ingest 1 KB, one a read": lambda folder: ingest(folder, size=1024, count=4_000, sends=1),
        "ingest batches 32 x 128 B": lambda folder: ingest_batches(folder, size=128, count=600),
    },
    "pull": {"pull 32 x 1 KB": lambda folder: pulls(folder, count=600)},
}
