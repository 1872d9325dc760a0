"""The thread that sends old data: in order, whole frames, without keeping in memory what was not there before."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.broker.replication import catch_up as module
from flaremq.broker.replication.catch_up import CatchUp, Piece
from flaremq.broker.replication.sinks import SocketSink

SIZE = 64 << 10


class LogFile:
    """A log file of the test; ``cold`` ranges are not in memory."""

    def __init__(self, path: Path, start: int, offset: int, cold: bool, forgotten: list[tuple[int, int]]) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self.file_offset = offset - start
        self.length = start + SIZE - offset
        self._cold = cold
        self._forgotten = forgotten

    def fileno(self) -> int:
        return self._descriptor

    def is_resident(self, file_offset: int, length: int) -> bool:
        return not self._cold

    def forget(self, file_offset: int, length: int) -> None:
        self._forgotten.append((file_offset, length))

    def close(self) -> None:
        os.close(self._descriptor)


class Bench:
    def __init__(self, folder: Path, *, cold: bool = False) -> None:
        self.data = os.urandom(3 * SIZE)
        self.cold = cold
        self.forgotten: list[tuple[int, int]] = []
        self.paths = []
        self.sent: list[list[Piece]] = []
        self.failure: Exception | None = None
        self.progress = threading.Semaphore(0)
        for number in range(3):
            path = folder / str(number)
            path.write_bytes(self.data[number * SIZE : (number + 1) * SIZE])
            self.paths.append(path)
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.thread = CatchUp(self.open, SocketSink(self.near.fileno()), self.on_sent, self.on_failed)

    def open(self, offset: int) -> LogFile | None:
        number = offset // SIZE
        if number >= len(self.paths):
            return None
        return LogFile(self.paths[number], number * SIZE, offset, self.cold, self.forgotten)

    def on_sent(self, pieces: list[Piece]) -> None:
        self.sent.append(pieces)
        self.progress.release()

    def on_failed(self, error: Exception) -> None:
        self.failure = error
        self.progress.release()

    def read(self, size: int) -> bytes:
        self.far.settimeout(20)
        data = b""
        while len(data) < size:
            data += self.far.recv(size - len(data))
        return data

    def close(self) -> None:
        self.thread.stop()
        self.thread.join()
        self.near.close()
        self.far.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def pieces(*ranges: tuple[int, int]) -> list[Piece]:
    return [Piece(b"<%d>" % start, start, end - start) for start, end in ranges]


def expected(bench: Bench, batch: list[Piece]) -> bytes:
    return b"".join(piece.header + bench.data[piece.offset : piece.offset + piece.length] for piece in batch)


def test_pieces_are_sent_in_order_over_files(bench: Bench) -> None:
    first = pieces((100, 30_000), (30_000, SIZE), (SIZE, SIZE + 5))
    second = [Piece(b"heartbeat", SIZE + 5, 0), *pieces((SIZE + 5, 2 * SIZE), (2 * SIZE, 3 * SIZE))]
    bench.thread.send(first)
    bench.thread.send(second)
    wanted = expected(bench, first + second)
    assert bench.read(len(wanted)) == wanted
    for _ in range(2):
        assert bench.progress.acquire(timeout=20)
    assert bench.sent == [first, second]


def test_what_was_not_in_memory_is_dropped_behind_the_place_that_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("_WINDOW", 4096), ("_AHEAD", 8192), ("_LAG", 16384)):
        monkeypatch.setattr(module, name, size)
    bench = Bench(tmp_path, cold=True)
    try:
        batch = pieces(*((at, at + 4096) for at in range(0, SIZE, 4096)))
        bench.thread.send(batch)
        bench.read(len(expected(bench, batch)))
        assert bench.progress.acquire(timeout=20)
        assert bench.forgotten == [(at, 4096) for at in range(0, SIZE - 16384, 4096)]
    finally:
        bench.close()
    assert bench.forgotten == [(at, 4096) for at in range(0, SIZE, 4096)]


def test_what_was_in_memory_stays_there(bench: Bench) -> None:
    batch = pieces((0, SIZE), (SIZE, 2 * SIZE))
    bench.thread.send(batch)
    bench.read(len(expected(bench, batch)))
    assert bench.progress.acquire(timeout=20)
    assert bench.forgotten == []


def test_deleted_file_is_a_failure(bench: Bench) -> None:
    bench.thread.send(pieces((3 * SIZE, 3 * SIZE + 10)))
    assert bench.progress.acquire(timeout=20)
    assert "deleted" in str(bench.failure)


def test_peer_that_is_gone_is_a_failure(bench: Bench) -> None:
    bench.far.close()
    bench.thread.send(pieces((0, SIZE)))
    assert bench.progress.acquire(timeout=20)
    assert isinstance(bench.failure, OSError)


def test_thread_that_waits_for_a_peer_that_does_not_read_ends_when_told(bench: Bench) -> None:
    for _ in range(40):
        bench.thread.send(pieces((0, SIZE), (SIZE, 2 * SIZE), (2 * SIZE, 3 * SIZE)))
    bench.thread.stop()
    bench.thread.join()
    assert bench.failure is None
