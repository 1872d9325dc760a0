"""HAConnection: the master's end of one connection.

What a peer has to show before it gets anything is the Door's; what the bytes mean is ``replication.source``'s. Here is
when they are written. Near the end of the log that is from the loop, at the end of the turn in which bytes became
sendable: one gathered write of headers and views of the mapped files, no copy, no thread. Far from it a thread reads
and sends (CatchUp), in batches that the loop composes, and the loop takes over again near the end.

A slave that does not read is not written to: no more than one gathered write waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Final, cast

from flaremq.broker.replication.catch_up import CatchUp, Piece, Sink
from flaremq.broker.replication.challenge import MasterProof, begins_hello
from flaremq.broker.replication.door import Door
from flaremq.broker.replication.flow import FlowControl, RateMeter
from flaremq.broker.replication.sendable_log import SendableLog
from flaremq.broker.replication.sinks import LoopSink, SocketSink
from flaremq.errors import FlareMQError, RemoteProtocolError
from flaremq.log_lines import LimitedLog
from flaremq.protocol.command import Body
from flaremq.remoting.address import describe_peer
from flaremq.remoting.direct_write import socket_of, write_now
from flaremq.replication.epochs import EpochTable
from flaremq.replication.replicas import Replicas
from flaremq.replication.source import Source, SourceSettings
from flaremq.storage.options import StoreOptions

_log = logging.getLogger(__name__)
_refusals = LimitedLog(_log)
WRITE_MAX: Final = 1 << 20  # bytes of one gathered write
FAR_BYTES: Final = 16 << 20  # behind the end: the thread's business
NEAR_BYTES: Final = 2 << 20  # the loop takes over
BATCH_BYTES: Final = 32 << 20  # handed to the thread at once; it has two batches at most
_BATCH_PIECES: Final = 256
_TLS_BUFFER: Final = 256 << 10
_keys = count(1)


@dataclass(frozen=True, slots=True)
class Stream:
    """What the connections of one HA server share."""

    log: SendableLog
    replicas: Replicas
    options: StoreOptions
    door: Door
    epochs: Callable[[], EpochTable | None] | None  # given: controller dialect; None while this is no master
    confirm_offset: Callable[[], int]
    acknowledged: Callable[[], None]
    changed: Callable[[HAConnection], None]  # it was let in, or is closed


@dataclass(frozen=True, slots=True)
class HAConnectionFacts:
    """One slave, as request 907 and ``cluster status`` show it."""

    address: str
    broker_id: int | None
    acknowledged: int
    next_offset: int
    transferred_bytes_per_second: int
    transferred_bytes: int
    is_catching_up: bool


class HAConnection(asyncio.Protocol):
    """A connection that a slave opened. Event loop only."""

    def __init__(self, stream: Stream) -> None:
        now = monotonic()
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._greeting: bytearray | None = bytearray()  # first bytes, until they tell what the peer is
        self._proof: MasterProof | None = None
        self._source: Source | None = None
        self._proved_id: int | None = None
        self._catch_up: CatchUp | None = None
        self._stopped_catch_up: CatchUp | None = None  # its thread may be at its last piece
        self._loop_sink: LoopSink | None = None  # of a catch-up whose bytes pass through the loop
        self._held_back: list[Body] = []  # handshake answers while the thread writes
        self._is_blocked = False  # the peer does not read as fast as we write
        self._counts = False  # replicas know of it
        self._flow = FlowControl(now)
        self._flow_timer: asyncio.TimerHandle | None = None
        self._meter = RateMeter(now)
        self._since = now
        self.key = next(_keys)
        self.peer = "unknown:0"
        self.host = ""
        self.is_open = False

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer, _ = describe_peer(transport.get_extra_info("peername"))
        self.host = self.peer.rpartition(":")[0].strip("[]")
        self._descriptor = socket_of(transport)
        # What a plain socket does not take at once is waited for; TLS needs room to work in.
        self._transport.set_write_buffer_limits(high=0 if self._descriptor >= 0 else _TLS_BUFFER)
        self.is_open = True
        self._stream.changed(self)

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            return
        try:
            if self._source is None:
                self._greet(data)
            else:
                self._take_reports(self._source, data)
        except FlareMQError as error:
            self.close(str(error))

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        if self._loop_sink is not None:
            self._loop_sink.room.release()
        elif self._source is not None:
            self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        was_open, self.is_open = self.is_open, False
        self._end_catch_up()
        if self._flow_timer is not None:
            self._flow_timer.cancel()
        if self._counts:
            self._counts = False
            self._stream.replicas.disconnected(self.key)
            self._stream.acknowledged()
        if was_open and self._source is not None:
            _log.info("the slave at %s is gone%s", self.peer, f": {exc}" if exc else "")
        self._stream.changed(self)

    def close(self, reason: str) -> None:
        """Close at once, and say why in the log."""
        if not self.is_open:
            return
        self.is_open = False
        _refusals.warning("closing the HA connection from %s: %s", self.peer, reason)
        self.abort()

    def abort(self) -> None:
        self._end_catch_up()
        if self._transport is not None:
            self._transport.abort()

    # Letting in

    @property
    def is_admitted(self) -> bool:
        """Whether the peer may have the log; until then it is one of the half-open."""
        return self._counts

    def _greet(self, data: bytes) -> None:
        """The first bytes tell whether the peer will prove the secret or must be known by its address."""
        door = self._stream.door
        if self._proof is None:
            assert self._greeting is not None
            self._greeting += data
            if len(self._greeting) < 8:
                return
            first = bytes(self._greeting)
            self._greeting = None
            if not begins_hello(first[:8]):
                if not door.admits(self.host):
                    raise RemoteProtocolError("it does not prove the shared secret, and haPeerAllow has it not")
                self._begin(first)
                return
            if door.secret is None:
                raise RemoteProtocolError("it wants to prove a shared secret, and this broker has none")
            self._proof = MasterProof(door.secret, group=door.group)
            data = first
        if door.guesses_too_often(self.host):
            raise RemoteProtocolError("too many wrong proofs came from there: none is looked at for some seconds")
        was_asked_for = self._proof.was_asked_for
        try:
            answer = self._proof.receive(data)
        except RemoteProtocolError:
            if was_asked_for:
                door.guessed(self.host)
            raise
        if answer:
            self._write([answer])
        if self._proof.is_done:
            self._proved_id = self._proof.broker_id
            self._begin(self._proof.rest)

    def _begin(self, data: bytes) -> None:
        stream, now = self._stream, monotonic()
        options = stream.options
        settings = SourceSettings(
            batch_size=options.ha_transfer_batch_size,
            heartbeat_s=options.ha_send_heartbeat_interval / 1000,
            silence_max_s=options.ha_housekeeping_interval / 1000,
        )
        self._source = Source(stream.log, settings, now=now, epochs=stream.epochs)
        self._take_reports(self._source, data)

    # Reports

    def _take_reports(self, source: Source, data: bytes) -> None:
        now = monotonic()
        before = source.acknowledged
        answer = source.receive(data, now)
        if answer:
            self._write([answer])
        if source.acknowledged >= 0:
            replicas = self._stream.replicas
            if not self._counts:
                self._count(source, now)
            if source.acknowledged != before:
                replicas.acknowledged(self.key, source.acknowledged, now)
                self._stream.acknowledged()
        self.pump()

    def _count(self, source: Source, now: float) -> None:
        """The first valid report: from here on the slave counts."""
        self._counts = True
        broker_id = source.broker_id if source.broker_id is not None else self._proved_id
        self._stream.replicas.connected(
            self.key, address=self.peer, broker_id=broker_id, is_learner=source.is_learner, now=now
        )
        self._stream.changed(self)
        _log.info(
            "a slave at %s%s fetches the log from %d on; it ends at %d",
            self.peer,
            "" if broker_id is None else f" with brokerId {broker_id}",
            source.next_offset if source.next_offset >= 0 else source.acknowledged,
            self._stream.log.own_end,
        )

    # Sending

    def tick(self, now: float) -> None:
        """A heartbeat if one is due; close a slave that says nothing."""
        if self._source is None:
            if now - self._since > self._stream.options.ha_housekeeping_interval / 1000:
                self.close("it said nothing that lets it in")
            return
        try:
            self._source.check(now)
        except FlareMQError as error:
            self.close(str(error))
        else:
            self.pump(heartbeat=True)

    def pump(self, *, heartbeat: bool = False) -> None:
        """Write what may be sent and the peer takes; a heartbeat, if one is due, only when asked for."""
        source = self._source
        if source is None or not self.is_open:
            return
        end = self._stream.log.end_offset
        if source.next_offset == end and not heartbeat and self._catch_up is None:
            return
        try:
            if self._catch_up is not None:
                self._feed(source, self._catch_up)
            elif not self._is_blocked:
                if source.next_offset >= 0 and end - source.next_offset > FAR_BYTES:
                    self._begin_catch_up(source)
                else:
                    self._write_tail(source, end)
        except FlareMQError as error:
            self.close(str(error))

    def _write_tail(self, source: Source, end: int) -> None:
        stream, now = self._stream, monotonic()
        if not self._may_send(now):
            return
        confirm_offset = stream.confirm_offset() if stream.epochs is not None else 0
        out: list[Body] = []
        size = 0
        while size < WRITE_MAX and (not out or source.next_offset < end):
            span = source.next_span(now, confirm_offset)
            if span is None:
                break
            out.append(span.header)
            if span.length:
                out.append(stream.log.view(span.offset, span.length))
                size += span.length
                self._flow.spend(span.length)
                if self._flow.wait_seconds(now):
                    break
        if out:
            self._meter.count(size, now)
            if size and self._counts:
                stream.replicas.sent(self.key, source.next_offset)
            self._write(out)
            if size >= WRITE_MAX and not self._is_blocked:
                self._loop.call_soon(self.pump)  # there may be more; others first

    def _may_send(self, now: float) -> bool:
        """Whether flow control lets the next frame go; if not, it is asked again when it does."""
        options = self._stream.options
        self._flow.per_second = options.max_ha_transfer_byte_in_second if options.ha_flow_control_enable else 0
        wait = self._flow.wait_seconds(now)
        if wait and self._flow_timer is None:
            self._flow_timer = self._loop.call_later(wait, self._flow_due)
        return not wait

    def _flow_due(self) -> None:
        self._flow_timer = None
        self.pump()

    def _write(self, out: list[Body]) -> None:
        if self._catch_up is not None:
            self._held_back += out
            return
        assert self._transport is not None
        if self._descriptor >= 0:
            out = write_now(self._transport, self._descriptor, out)
        if out:
            self._transport.writelines(out)

    # Catching up

    def _begin_catch_up(self, source: Source) -> None:
        assert self._transport is not None
        sink: Sink
        if self._descriptor >= 0:
            if self._transport.get_write_buffer_size():
                return  # what the loop wrote goes first; ``resume_writing`` comes back here
            sink = SocketSink(self._descriptor)
        else:
            sink = self._loop_sink = LoopSink(self._from_thread(self._write_for_thread))
        open_file = self._stream.log.open_file
        self._catch_up = CatchUp(open_file, sink, self._from_thread(self._sent), self._from_thread(self._failed))
        self._feed(source, self._catch_up)

    def _feed(self, source: Source, catch_up: CatchUp) -> None:
        """Compose what the thread sends next; two batches, so that it need not wait for the loop."""
        stream, now = self._stream, monotonic()
        while catch_up.queued < 2 and stream.log.end_offset - source.next_offset > NEAR_BYTES and self._may_send(now):
            confirm_offset = stream.confirm_offset() if stream.epochs is not None else 0
            pieces: list[Piece] = [Piece(bytes(part), source.next_offset, 0) for part in self._held_back]
            self._held_back.clear()
            size = 0
            while size < BATCH_BYTES and len(pieces) < _BATCH_PIECES and not self._flow.wait_seconds(now):
                span = source.next_span(now, confirm_offset)
                if span is None:
                    break
                pieces.append(Piece(*span))
                size += span.length
                self._flow.spend(span.length)
            if not pieces:
                break
            if self._counts:
                stream.replicas.sent(self.key, source.next_offset)
            catch_up.send(pieces)
        if not catch_up.queued and self._flow_timer is None:
            self._end_catch_up()
            self._write_tail(source, stream.log.end_offset)

    def _sent(self, pieces: list[Piece]) -> None:
        """The thread is done with a batch."""
        catch_up = self._catch_up
        if catch_up is None:
            return
        catch_up.queued -= 1
        self._meter.count(sum(piece.length for piece in pieces), monotonic())
        self.pump()

    def _failed(self, error: Exception) -> None:
        self.close(f"while it was catching up: {error}")

    def _write_for_thread(self, data: bytes) -> None:
        sink = self._loop_sink
        if not self.is_open or self._transport is None or sink is None:
            return
        self._transport.write(data)
        if not self._is_blocked:
            sink.room.release()

    def _end_catch_up(self) -> None:
        catch_up, self._catch_up, self._loop_sink = self._catch_up, None, None
        if catch_up is not None:
            self._stopped_catch_up = catch_up
            catch_up.stop()
            held_back, self._held_back = self._held_back, []
            if held_back and self.is_open:
                self._write(held_back)

    async def settle(self) -> None:
        """After the end: wait until no thread of this connection reads the store any more."""
        if self._stopped_catch_up is not None:
            await self._loop.run_in_executor(None, self._stopped_catch_up.join)

    def _from_thread(self, callback: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            try:
                self._loop.call_soon_threadsafe(callback, *arguments)
            except RuntimeError:
                pass  # the loop has ended

        return call

    @property
    def facts(self) -> HAConnectionFacts:
        source = self._source
        return HAConnectionFacts(
            address=self.peer,
            broker_id=self._proved_id if source is None or source.broker_id is None else source.broker_id,
            acknowledged=-1 if source is None else source.acknowledged,
            next_offset=-1 if source is None else source.next_offset,
            transferred_bytes_per_second=self._meter.per_second(monotonic()),
            transferred_bytes=self._meter.total,
            is_catching_up=self._catch_up is not None,
        )
