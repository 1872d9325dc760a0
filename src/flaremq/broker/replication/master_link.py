"""MasterLink: a slave's connection to its master.

Whatever one read brings is checked, appended and reported. A small read is done with before the next one goes into the
same buffer. A large one is appended by a worker thread while the next is received and checked, one at a time, and
reading waits while two are under way. A slave that is far behind reads as fast as the network gives: after some
megabytes the others on the loop get their turn, and when the disk cannot keep up, reading waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, cast

from flaremq.broker.replication.challenge import SlaveProof
from flaremq.broker.replication.door import Door
from flaremq.broker.replication.flow import RateMeter
from flaremq.broker.replication.replica_log import ReplicaLog, is_plain
from flaremq.errors import FlareMQError, RemoteProtocolError, UnavailableError
from flaremq.protocol.command import Body
from flaremq.remoting.address import describe_peer
from flaremq.remoting.direct_write import socket_of, write_now
from flaremq.replication.follower import Follower, Step

_log = logging.getLogger(__name__)
_BUFFER_BYTES: Final = 1 << 20
LARGE_BYTES: Final = 256 << 10  # a read that a worker thread appends
_SLICE_BYTES: Final = 4 << 20  # received in one turn of the loop
_ANSWER_SECONDS: Final = 10.0  # a master has so long to prove the secret


class MasterLink(asyncio.BufferedProtocol):
    """One connection. ``ended`` is done when it is over, with what ended it. Event loop only."""

    def __init__(self, log: ReplicaLog, follower: Follower, door: Door, broker_id: int) -> None:
        self._log = log
        self._follower = follower
        self._door = door
        self._broker_id = broker_id
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))  # the next read goes here
        self._spare: list[memoryview] = []
        self._writing: asyncio.Task[None] | None = None  # a worker thread appends
        self._waiting: deque[tuple[list[Step], memoryview]] = deque()  # what was read meanwhile
        self._is_over = threading.Event()  # for the worker thread: append no more
        self._holds: set[str] = set()  # why nothing is read at present
        self._proof: SlaveProof | None = None
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._since = monotonic()
        self._slice = 0  # bytes received since others had their turn
        self._syncing: asyncio.Task[None] | None = None  # reading waits for the disk
        self.ended: asyncio.Future[Exception] = self._loop.create_future()
        self.on_read: Callable[[int], None] = _ignore
        self.on_write: Callable[[], None] = _ignore
        self.has_received = False  # anything of the stream
        self.meter = RateMeter(self._since)

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.ended.done():
            self._transport.abort()
            return
        self._descriptor = socket_of(transport)
        peer, _ = describe_peer(transport.get_extra_info("peername"))
        host = peer.rpartition(":")[0].strip("[]")
        if self._door.admits_nobody_at(host):
            # A name server tells where the master is, and anybody may have told the name server.
            self.end(UnavailableError(f"{host} is not in haPeerAllow, and there is no shared secret to prove"))
            return
        if self._door.secret is not None and not self._door.admits(host):
            self._proof = SlaveProof(self._door.secret, group=self._door.group, broker_id=self._broker_id)
            self._write(self._proof.hello)
        else:
            self._write(self._follower.hello())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.ended.done():
            return
        self.on_read(nbytes)
        try:
            data = self._buffer[:nbytes]
            if self._proof is not None:
                self._prove(self._proof, bytes(data))
            else:
                self._take(data)
            self._slice += nbytes
            if self._slice >= _SLICE_BYTES:
                self._let_others_go_first()
        except FlareMQError as error:
            self.end(error)
        except Exception as error:
            _log.exception("while taking the master's log")
            self.end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(UnavailableError(f"the connection broke: {exc}" if exc else "the master closed the connection"))

    def end(self, error: Exception) -> None:
        """Close at once; nothing is appended any more when this returns. The first error counts."""
        self._is_over.set()
        if self._writing is not None:
            self._log.wait_for_piece()
        if not self.ended.done():
            self.ended.set_result(error)
        if self._transport is not None:
            self._transport.abort()

    # The stream

    def progressed(self) -> None:
        """More of the log may have become what we promise: tell the master."""
        if self._proof is not None or self.ended.done() or self._transport is None:
            return
        follower = self._follower
        report = follower.report(min(self._log.held, follower.log_end), monotonic())
        if report:
            self._write(report)

    def tick(self, now: float) -> None:
        """A heartbeat if one is due; the end if the master is silent for too long."""
        if self.ended.done() or self._transport is None:
            return
        if self._proof is not None:
            if now - self._since > _ANSWER_SECONDS:
                self.end(RemoteProtocolError("the master does not answer our HELLO: has it a shared secret?"))
            return
        try:
            report = self._follower.tick(now)
        except FlareMQError as error:
            if self._syncing is None:  # else it is we who do not read
                self.end(error)
            return
        if report:
            self._write(report)

    def _prove(self, proof: SlaveProof, data: bytes) -> None:
        answer = proof.receive(data)
        if answer:
            self._write(answer)
        if proof.is_done:
            self._proof = None
            self._write(self._follower.hello())
            if proof.rest:
                self._take(memoryview(proof.rest))

    def _take(self, data: memoryview) -> None:
        self.has_received = True
        now = monotonic()
        steps = self._follower.receive(data, now)
        if steps:
            self.meter.count(len(data), now)
        if self._writing is not None:
            self._waiting.append((steps, self._buffer))
            self._buffer = self._spare.pop() if self._spare else memoryview(bytearray(_BUFFER_BYTES))
            self._hold("append")
        elif len(data) >= LARGE_BYTES and is_plain(steps):
            self._append_beside(steps, self._buffer)
            self._buffer = self._spare.pop() if self._spare else memoryview(bytearray(_BUFFER_BYTES))
        else:
            if steps:
                self._log.apply(steps)
            self._applied()

    def _applied(self) -> None:
        """Everything that was received is appended: report it, or end if something wrong came behind it."""
        if self._follower.failure is not None:
            self.end(self._follower.failure)
        else:
            self.progressed()

    def _append_beside(self, steps: list[Step], buffer: memoryview) -> None:
        """Let a worker thread append views of this buffer."""

        async def append() -> None:
            try:
                try:
                    await self._log.append_beside(steps, self._is_over)
                finally:
                    self._writing = None
                self._spare.append(buffer)
                if not self.ended.done():
                    self._go_on_appending()
            except Exception as error:
                self.end(error)

        self._writing = self._loop.create_task(append())

    def _go_on_appending(self) -> None:
        self.progressed()
        while self._waiting and self._writing is None:
            steps, buffer = self._waiting.popleft()
            if is_plain(steps):
                self._append_beside(steps, buffer)
            else:
                self._log.apply(steps)
                self._spare.append(buffer)
        if not self._waiting:
            self._release("append")
            if self._writing is None:
                self._applied()

    async def settle(self) -> None:
        """After the end: wait until no worker thread has anything of this connection in hand."""
        for task in (self._writing, self._syncing):
            if task is not None:
                await asyncio.wait([task])

    # Reading or not

    def _hold(self, why: str) -> None:
        if not self._holds and self._transport is not None:
            self._transport.pause_reading()
        self._holds.add(why)

    def _release(self, why: str) -> None:
        if why in self._holds:
            self._holds.discard(why)
            if not self._holds and not self.ended.done() and self._transport is not None:
                self._transport.resume_reading()

    def _let_others_go_first(self) -> None:
        self._slice = 0
        if self.ended.done():
            return
        self._hold("others")
        if self._log.is_too_far_ahead_of_the_disk:
            self._syncing = self._loop.create_task(self._wait_for_disk())
        else:
            self._loop.call_soon(self._release, "others")

    async def _wait_for_disk(self) -> None:
        try:
            await self._log.sync()
        except Exception as error:
            self.end(error)
        else:
            self._release("others")
        finally:
            self._syncing = None

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self.on_write()
        out: list[Body] = [data]
        if self._descriptor >= 0:
            out = write_now(self._transport, self._descriptor, out)
        if out:
            self._transport.writelines(out)


def _ignore(*_: object) -> None:
    pass
