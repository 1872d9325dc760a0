"""Log bytes to a socket: ``sendfile`` from the file, as catching up does it, or gathered writes of the mapping.

``python -m benchmarks.replication.transfer`` prints both ways for several frame sizes. A thread of the same process
reads and drops what arrives; its share is the same for both. The file is in the page cache.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import child
from benchmarks.rounds import OURS, Figure, Outcome, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row

_HEADER = bytes(12)
_FRAME_SIZES = (32 << 10, 256 << 10, 4 << 20)
_BUFFER = 1 << 20


def outcome(settings: Settings, folder: str | None) -> Outcome:
    figures = tuple(
        Figure(
            label=f"transfer by sendfile beside gathered writes, frames of {size >> 10} KiB",
            unit="MB/s",
            ours=f"sendfile_{size}",
            beside=f"gathered_{size}",
        )
        for size in _FRAME_SIZES
    )

    def measure(_side: str) -> Row:
        return child.run("replication.transfer:measure", byte_count=settings.replication_bytes // 4, folder=folder)

    return turns("transfer", figures, settings.replication_rounds, (OURS,), measure)


def measure(byte_count: int, folder: str | None = None) -> Row:
    row: Row = {}
    with tempfile.TemporaryDirectory(prefix="flaremq-bench-", dir=folder) as path:
        file = Path(path) / "log"
        with file.open("wb") as writing:
            piece = os.urandom(1 << 20)
            for _ in range(byte_count >> 20):
                writing.write(piece)
        for size in _FRAME_SIZES:
            for name, send in (("sendfile", _sendfile), ("gathered", _gathered)):
                rate, seconds = _rate(file, size, send)
                row[f"{name}_{size}"], row[f"{name}_{size}_cpu_s_per_GB"] = rate, seconds
    return row


def _rate(
    file: Path, size: int, send: Callable[[socket.socket, int, mmap.mmap, int, int], None]
) -> tuple[float, float]:
    """Megabytes a second, and processor seconds of sender and receiver a gigabyte."""
    near, far = _connection()
    total = file.stat().st_size
    reader = threading.Thread(target=_drain, args=(far,))
    with file.open("rb") as reading, mmap.mmap(reading.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        reader.start()
        began, cpu = time.monotonic(), time.process_time()
        for offset in range(0, total, size):
            send(near, reading.fileno(), mapping, offset, min(size, total - offset))
        near.shutdown(socket.SHUT_WR)
        reader.join()
        elapsed, used = time.monotonic() - began, time.process_time() - cpu
    near.close()
    far.close()
    return round(total / 1e6 / elapsed, 1), round(used / (total / 1e9), 3)


def _sendfile(sink: socket.socket, descriptor: int, _mapping: mmap.mmap, offset: int, length: int) -> None:
    sink.send(_HEADER, socket.MSG_MORE)
    while length:
        sent = os.sendfile(sink.fileno(), descriptor, offset, length)
        offset, length = offset + sent, length - sent


def _gathered(sink: socket.socket, _descriptor: int, mapping: mmap.mmap, offset: int, length: int) -> None:
    with memoryview(mapping) as whole, whole[offset : offset + length] as view:
        sent = sink.sendmsg([_HEADER, view])
        if sent < len(_HEADER) + length:
            sink.sendall(view[max(0, sent - len(_HEADER)) :])


def _drain(source: socket.socket) -> None:
    buffer = bytearray(_BUFFER)
    while source.recv_into(buffer):
        pass


def _connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


if __name__ == "__main__":
    print(json.dumps(measure(1 << 30), indent=2))
