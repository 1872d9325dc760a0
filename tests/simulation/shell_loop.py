"""An event loop whose time, threads and connections are simulated: asyncio code runs on it unchanged, by a seed.

Time jumps to the next timer. What goes to an executor happens at some later moment, on the loop. A thread of
``SimThreading`` is a real one that runs only while the loop waits for it, from one wait to the next, so there is one
order of events. Connections are ways of a ``Network``: split, delayed, kept back while a way is cut, and with a window
that fills up.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, cast

from tests.simulation.replica_group_parts import Network

PLACE: ContextVar[int] = ContextVar("PLACE")  # whose code runs: where its connections begin


class SimLoop(asyncio.BaseEventLoop):
    """``now`` is its clock. Also the ``Loop`` of a Network."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.now = 100.0
        self.events = 0
        self._timers = 0
        self.chance = chance
        self.network = Network(cast(Any, self), chance)
        self.listeners: dict[int, SimListener] = {}  # by port
        self.transports: set[SimTransport] = set()
        self._selector = self  # asyncio asks it to wait for sockets
        self.set_debug(False)  # a simulated thread calls the loop, which waits for it

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "everybody waits for somebody"
        self.now += max(timeout, 0.0)
        self.events += 1
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        """Timers of the same moment run in the order they were made, which asyncio does not promise."""
        self._timers += 1
        return super().call_at(when + self._timers * 1e-12, callback, *args, context=context)

    def at(self, time: float, call: Callable[..., None], *args: Any) -> None:
        self.call_at(time, call, *args)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        has_begun = self.chance.random() < 0.5  # then nobody can call it back

        def run() -> None:
            if future.cancelled() and not has_begun:
                return
            try:
                result = func(*args)
            except Exception as error:
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)

        self.call_later(self.chance.random() * 0.01, run)
        return future

    # Connections

    def listen(self, address: tuple[str, int], **_: Any) -> SimListener:
        """In the place of ``socket.create_server``."""
        listener = self.listeners[address[1]] = SimListener(self, address, PLACE.get())
        return listener

    async def sock_accept(self, sock: Any) -> Any:
        return await sock.waiting.get()

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        network, here = self.network, PLACE.get()
        listener = self.listeners.get(port)
        place = port % 10
        await asyncio.sleep(network.latency((here, place)))
        while (here, place) in network.cut or (place, here) in network.cut:
            await asyncio.sleep(0.1)  # the caller has a time limit
        listener = self.listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError("nobody listens")
        near, far = SimTransport(self, (here, place)), SimTransport(self, (place, here))
        near.peer, far.peer = far, near
        listener.waiting.put_nowait((SimSocket(far), (f"127.0.0.{here}", 40_000 + here)))
        protocol = protocol_factory()
        near.open(protocol)
        return near, protocol

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **_: Any) -> Any:  # type: ignore[override]
        protocol = protocol_factory()
        sock.transport.open(protocol)
        return sock.transport, protocol

    def sever(self, place: int, *, tells: bool) -> None:
        """A process is gone: its connections and its ports. ``tells``: those at the other end hear of it."""
        for port in [port for port, listener in self.listeners.items() if listener.place == place]:
            del self.listeners[port]
        for transport in [transport for transport in self.transports if transport.way[0] == place]:
            transport.sever(tells=tells)

    def sever_connections(self, place: int) -> None:
        """Those that a place has at this moment end, at both ends."""
        for transport in [transport for transport in self.transports if transport.way[0] == place]:
            transport.abort()


class SimListener:
    """A listening socket."""

    def __init__(self, loop: SimLoop, address: tuple[str, int], place: int) -> None:
        self.place = place
        self.waiting: asyncio.Queue[Any] = asyncio.Queue()
        self._loop = loop
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setblocking(self, flag: bool) -> None:
        pass

    def close(self) -> None:
        if self._loop.listeners.get(self._address[1]) is self:
            del self._loop.listeners[self._address[1]]


class SimSocket:
    """An accepted socket, until a protocol takes its transport."""

    def __init__(self, transport: SimTransport) -> None:
        self.transport = transport

    def setblocking(self, flag: bool) -> None:
        pass

    def setsockopt(self, *_: Any) -> None:
        pass

    def close(self) -> None:
        self.transport.abort()


class SimTransport(asyncio.Transport):
    """One end of a connection. ``way`` leads from here to the peer."""

    def __init__(self, loop: SimLoop, way: tuple[int, int]) -> None:
        super().__init__()
        self.way = way
        self.peer: SimTransport
        self._loop = loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._pipe = loop.network.pipe(way, self._arrived)
        self._window = loop.chance.choice((3_000, 20_000, 1 << 20))
        self._under_way = 0
        self._unsent: deque[bytes] = deque()
        self._unread: deque[bytes | None] = deque()
        self._is_reading = True
        self._is_blocked = False
        self._is_closed = False
        self._is_lost = False

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._loop.transports.add(self)
        protocol.connection_made(self)
        self._loop.call_soon(self._read)

    # The side of the protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name != "peername":
            return default
        return f"127.0.0.{self.way[1]}", 40_000 + self.way[1]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._unsent))

    def is_closing(self) -> bool:
        return self._is_closed

    def write(self, data: Any) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if not self._is_closed:
            self._unsent.append(b"".join(bytes(part) for part in list_of_data))
            self._send()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._loop.call_soon(self._read)

    def abort(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._unsent.clear()
            self._pipe.send(None)
        self._loop.call_soon(self._lose)

    def sever(self, *, tells: bool) -> None:
        if not self._is_closed and tells:
            self._pipe.send(None)
        self._is_closed = True
        self._loop.call_soon(self._lose)

    # The side of the network

    def _send(self) -> None:
        protocol = cast(asyncio.Protocol, self._protocol)
        while self._unsent and self._under_way <= self._window // 2 and not self._is_closed:  # no crumbs
            data = self._unsent.popleft()
            part = data[: self._window - self._under_way]
            if len(part) < len(data):
                self._unsent.appendleft(data[len(part) :])
            self._under_way += len(part)
            self._pipe.send(part)
        if self._unsent and not self._is_blocked:
            self._is_blocked = True
            protocol.pause_writing()
        elif self._is_blocked and not self._unsent and not self._is_closed:
            self._is_blocked = False
            protocol.resume_writing()

    def _arrived(self, data: bytes | None) -> None:
        """At the peer."""
        self.peer._unread.append(data)
        self.peer._read()

    def _taken(self, size: int) -> None:
        self._under_way -= size
        if not self._is_closed:
            self._send()

    def _read(self) -> None:
        protocol = self._protocol
        while self._unread and self._is_reading and protocol is not None and not self._is_closed:
            data = self._unread.popleft()
            if data is None:
                self._is_closed = True
                self._lose()
                return
            if isinstance(protocol, asyncio.BufferedProtocol):
                buffer = memoryview(cast(Any, protocol.get_buffer(len(data))))
                size = min(len(buffer), len(data))
                buffer[:size] = data[:size]
                if size < len(data):
                    self._unread.appendleft(data[size:])
                protocol.buffer_updated(size)
            else:
                size = len(data)
                cast(asyncio.Protocol, protocol).data_received(data)
            self._loop.at(self._loop.now + self._loop.network.latency(self.way), self.peer._taken, size)

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._loop.transports.discard(self)
            if self._protocol is not None:
                self._protocol.connection_lost(None)


class _Killed(BaseException):
    """The process of a simulated thread is gone."""


class SimThread:
    """A thread that runs from one wait to the next while the loop waits for it."""

    def __init__(self, owner: SimThreading, target: Callable[[], None]) -> None:
        self._owner = owner
        self._target = target
        self._may_go = threading.Semaphore(0)
        self._is_back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_done = False
        self._is_killed = False

    def start(self) -> None:
        self._thread.start()
        self._owner.threads.append(self)
        self._owner.loop.call_soon(self.go_on)

    def _run(self) -> None:
        self._may_go.acquire()
        try:
            self._target()
        except _Killed:
            pass
        finally:
            self._is_done = True
            self._is_back.release()

    def go_on(self) -> None:
        """From the loop: let it run to its next wait."""
        if not self._is_done:
            before, self._owner.running = self._owner.running, self
            self._may_go.release()
            self._is_back.acquire()
            self._owner.running = before

    def wait(self) -> None:
        """From the thread: let the loop go on."""
        self._is_back.release()
        self._may_go.acquire()
        if self._is_killed:
            raise _Killed

    def kill(self) -> None:
        self._is_killed = True
        self.join()

    def join(self) -> None:
        while not self._is_done:
            self.go_on()


class SimThreading:
    """In the place of the module ``threading``, for what has one thread of its own."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.threads: list[SimThread] = []
        self.running: SimThread | None = None  # None: the loop runs

    def Thread(self, *, target: Callable[[], None], name: str, daemon: bool) -> SimThread:
        return SimThread(self, target)

    def Semaphore(self, value: int) -> SimSemaphore:
        return SimSemaphore(self, value)

    def sleep(self, seconds: float) -> None:
        """Whoever runs waits for a disk: a thread lets the loop go on, the loop stands still."""
        if self.running is None:
            self.loop.now += seconds
        else:
            self.loop.call_later(seconds, self.running.go_on)
            self.running.wait()


class SimSemaphore:
    def __init__(self, owner: SimThreading, value: int) -> None:
        self._owner = owner
        self._value = value
        self._waiting: SimThread | None = None

    def acquire(self, timeout: float | None = None) -> bool:
        thread, loop = self._owner.running, self._owner.loop
        assert thread is not None, "the loop waits for a thread"
        deadline = None if timeout is None else loop.now + timeout
        if deadline is not None:
            loop.call_at(deadline, thread.go_on)
        while not self._value:
            if deadline is not None and loop.now >= deadline:
                return False
            self._waiting = thread
            thread.wait()
            self._waiting = None
        self._value -= 1
        return True

    def release(self) -> None:
        self._value += 1
        if self._waiting is not None:
            self._owner.loop.call_later(self._owner.loop.chance.random() * 0.001, self._waiting.go_on)
