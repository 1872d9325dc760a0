"""A TCP proxy between two servers under test: cuts, silence in one or both directions, delay, byte rate, byte limit.

    with TcpProxy("127.0.0.1:10912") as proxy:
        ...connect to proxy.address...
        proxy.cut()          # connections are reset, new ones closed at once, until heal()
        proxy.silence(UP)    # nothing goes to the target any more, connections stay
        proxy.heal()         # everything flows again, nothing of what was held back is lost

``rewrite`` replaces texts of equal length in what comes from the target: a name server behind such a proxy hands out
the addresses of other proxies instead of those of the brokers, which is how a link between two brokers gets a proxy
without either of them knowing (a RocketMQ broker advertises the port it listens on and nothing else).

Standard library only, threads, blocking sockets: it also stands between servers that are not ours.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

UP = "up"  # from the one that connected to the target
DOWN = "down"
_CHUNK = 65_536
_LOOK_S = 0.02
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends a reset instead of the rest


class TcpProxy:
    def __init__(self, target: str, *, port: int = 0, rewrite: Mapping[str, str] | None = None) -> None:
        self.target = target
        self.delay_s = 0.0  # before each piece is passed on, each way
        self.bytes_per_second: float | None = None  # each way and connection
        self.connections = 0  # accepted so far
        self.passed = {UP: 0, DOWN: 0}
        self._rewrite = {old.encode(): new.encode() for old, new in (rewrite or {}).items()}
        assert all(len(old) == len(new) for old, new in self._rewrite.items()), "frames carry their length"
        self._lock = threading.Lock()  # guards everything below and ``passed``
        self._links: set[_Link] = set()
        self._is_cut = False
        self._silent: set[str] = set()
        self._left: dict[str, int | None] = {UP: None, DOWN: None}
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, name=f"proxy to {target}", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def open_connections(self) -> int:
        with self._lock:
            return len(self._links)

    def cut(self) -> None:
        """Reset what is open and whatever comes, until ``heal``."""
        with self._lock:
            self._is_cut = True
        self.drop()

    def drop(self) -> None:
        """Reset what is open now; new connections are served."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def silence(self, *directions: str) -> None:
        """Hold back what goes these ways (both if none is named); connections stay open."""
        with self._lock:
            self._silent |= set(directions or (UP, DOWN))

    def limit(self, direction: str, byte_count: int) -> None:
        """Let so many more bytes pass this way, then reset the connection that wants more, and forget the limit."""
        with self._lock:
            self._left[direction] = byte_count

    def heal(self) -> None:
        with self._lock:
            self._is_cut = False
            self._silent.clear()
            self._left = {UP: None, DOWN: None}
        self.delay_s, self.bytes_per_second = 0.0, None

    def close(self) -> None:
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._acceptor.join(5)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                is_cut = self._is_cut
                self.connections += 1
            if is_cut:
                _reset(near)
                continue
            host, port = self.target.rsplit(":", 1)
            try:
                far = socket.create_connection((host, int(port)), timeout=5)
            except OSError:
                _reset(near)
                continue
            link = _Link(self, near, far)
            with self._lock:
                self._links.add(link)
            link.start()

    # What a link asks

    def _forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _is_silent(self, direction: str) -> bool:
        with self._lock:
            return direction in self._silent

    def _allowed(self, direction: str, count: int) -> int:
        """How many of so many bytes may pass; less means that the connection ends behind them."""
        with self._lock:
            left = self._left[direction]
            if left is None or left >= count:
                if left is not None:
                    self._left[direction] = left - count
                allowed = count
            else:
                self._left[direction], allowed = None, left
            self.passed[direction] += allowed
            return allowed

    def _rewritten(self, direction: str, data: bytes) -> bytes:
        if direction == DOWN:
            for old, new in self._rewrite.items():
                data = data.replace(old, new)
        return data


class _Link:
    """One connection and its two directions."""

    def __init__(self, proxy: TcpProxy, near: socket.socket, far: socket.socket) -> None:
        self._proxy = proxy
        self._sockets = (near, far)
        self._open_ways = 2
        self._is_closed = False
        for each in self._sockets:
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        near, far = self._sockets
        for source, sink, direction in ((near, far, UP), (far, near, DOWN)):
            threading.Thread(target=self._pass_on, args=(source, sink, direction), daemon=True).start()

    def close(self) -> None:
        self._is_closed = True
        self._proxy._forget(self)
        for each in self._sockets:
            _reset(each)

    def _pass_on(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        proxy = self._proxy
        try:
            while data := source.recv(_CHUNK):
                while proxy._is_silent(direction) and not self._is_closed:
                    time.sleep(_LOOK_S)
                if proxy.delay_s:
                    time.sleep(proxy.delay_s)
                if proxy.bytes_per_second:
                    time.sleep(len(data) / proxy.bytes_per_second)
                allowed = proxy._allowed(direction, len(data))
                sink.sendall(proxy._rewritten(direction, data[:allowed]))
                if allowed < len(data):
                    break
            else:
                # The end of one direction is passed on; the other may still have something to say.
                sink.shutdown(socket.SHUT_WR)
                self._open_ways -= 1
                if self._open_ways:
                    return
        except OSError:
            pass
        self.close()


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads it
    connection.close()
