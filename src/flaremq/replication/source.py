"""The master's end of one HA connection.

The shell gives every read to ``receive`` and sends what it answers, sends spans from ``next_span`` (header, then log
bytes as they stand) until there is none, and looks again at ``due()`` or when the log grew.

A report is believed only if it says what can be true: the first lies in our log (or is 0, an empty slave), the later
ones do not fall and do not pass what was sent on this connection. Anything else ends the connection and counts for
nothing; the slave comes back, so the fault stays visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from flaremq.errors import RemoteProtocolError, UnavailableError
from flaremq.replication.epochs import EpochEntry, EpochTable
from flaremq.replication.frames import (
    DATA,
    DATA_MAX,
    EPOCH,
    HANDSHAKE,
    HANDSHAKE_REPLY,
    REPORT,
    STATE_DATA,
    STATE_REPORT,
    HAState,
)

UNKNOWN = -1
# Answered on one connection: a slave asks again every few seconds until it hears, so more than these it does not read.
_HANDSHAKES_MAX = 16


class SourceLog(Protocol):
    """What a source asks of the log; all of it may change between two calls."""

    @property
    def min_offset(self) -> int: ...  # start of the first file

    @property
    def end_offset(self) -> int: ...  # what may be sent ends here

    @property
    def own_end(self) -> int: ...  # the whole log ends here

    @property
    def file_size(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Seconds and bytes."""

    batch_size: int = 32768
    heartbeat_s: float = 5.0
    silence_max_s: float = 20.0
    last_file_only: bool = False  # an empty classic slave gets the last file only, as from RocketMQ; else the whole log


class Span(NamedTuple):
    """One frame: its header, then ``length`` bytes of the log from ``offset``; none in a heartbeat."""

    header: bytes
    offset: int
    length: int


class Source:
    """One slave's connection. ``epochs`` given: controller mode, asked anew for every frame; None while no master.

    A broker that leads no more must not tell slaves where to cut: after a crash its log may be shorter than theirs.
    """

    def __init__(
        self,
        log: SourceLog,
        settings: SourceSettings,
        *,
        now: float,
        epochs: Callable[[], EpochTable | None] | None = None,
    ) -> None:
        self.broker_id: int | None = None
        self.is_learner = False
        self.requested = UNKNOWN
        self.acknowledged = UNKNOWN
        self.next_offset = UNKNOWN  # of the next byte to send
        self.sent_bytes = 0
        self._log = log
        self._settings = settings
        self._batch = min(max(1, settings.batch_size), DATA_MAX)
        self._epochs = epochs
        self._last_file_only = settings.last_file_only
        self._buffer = b""
        self._handshakes = 0
        self._start = UNKNOWN
        self._last_read = now
        self._last_written = now

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> bytes:
        """Take reports and handshakes; what to answer. ``RemoteProtocolError``: close the connection."""
        self._last_read = now
        if len(data) == REPORT.size and self._epochs is None and not self._buffer:
            self._take_report(REPORT.unpack(data)[0])  # as nearly always: one report, whole
            return b""
        if self._buffer:
            data = self._buffer + data
        view = memoryview(data)
        if self._epochs is not None:
            return self._receive_frames(view, now)
        at = 0
        while len(view) - at >= REPORT.size:
            self._take_report(REPORT.unpack_from(view, at)[0])
            at += REPORT.size
        self._buffer = bytes(view[at:])
        return b""

    def next_span(self, now: float, confirm_offset: int = 0) -> Span | None:
        """The next frame of data, a heartbeat if one is due, or nothing. What it gives counts as sent."""
        if self.next_offset == UNKNOWN:
            return None
        start = self.next_offset
        log = self._log
        if start < log.min_offset:
            raise UnavailableError(f"the slave needs bytes from {start}, our log begins at {log.min_offset} by now")
        length = min(log.end_offset - start, self._batch, log.file_size - start % log.file_size)
        entry: EpochEntry | None = None
        if self._epochs is not None:
            table = self._table()
            entry = self._entry_at(table, start)
            length = min(length, table.end_of(entry.epoch, log.own_end) - start)
        if length <= 0:
            if now - self._last_written < self._settings.heartbeat_s:
                return None
            length = 0
        self._last_written = now
        self.next_offset += length
        self.sent_bytes += length
        if entry is None:
            return Span(DATA.pack(start, length), start, length)
        return Span(STATE_DATA.pack(HAState.TRANSFER, length, start, *entry, confirm_offset), start, length)

    def due(self) -> float:
        """When a heartbeat or the end of patience comes."""
        silence = self._last_read + self._settings.silence_max_s
        return silence if self.next_offset == UNKNOWN else min(silence, self._last_written + self._settings.heartbeat_s)

    def check(self, now: float) -> None:
        """``UnavailableError`` if the slave was silent for too long."""
        if now - self._last_read > self._settings.silence_max_s:
            raise UnavailableError(f"nothing from the slave for {now - self._last_read:.1f} s")

    def _table(self) -> EpochTable:
        assert self._epochs is not None
        table = self._epochs()
        if table is None:
            raise UnavailableError("this broker is not the master")
        return table

    def _entry_at(self, table: EpochTable, offset: int) -> EpochEntry:
        entry = table.entry_at(offset)
        if entry is None:
            raise UnavailableError(f"{offset} lies in no epoch of this log: {table}")
        return entry

    def _receive_frames(self, view: memoryview, now: float) -> bytes:
        answers = b""
        at = 0
        while len(view) - at >= STATE_REPORT.size:
            state, offset = STATE_REPORT.unpack_from(view, at)
            if state == HAState.TRANSFER:
                if self.broker_id is None:
                    raise RemoteProtocolError("the slave reports before its handshake")
                self._take_report(offset)
                at += STATE_REPORT.size
            elif state == HAState.HANDSHAKE:
                if len(view) - at < HANDSHAKE.size:
                    break
                answers += self._shake(*HANDSHAKE.unpack_from(view, at)[1:])
                at += HANDSHAKE.size
            else:
                raise RemoteProtocolError(f"the slave sent a frame of state {state}")
        self._buffer = bytes(view[at:])
        if answers:
            self._last_written = now
        return answers

    def _shake(self, last_file_only: int, is_learner: int, broker_id: int) -> bytes:
        if self.requested != UNKNOWN:
            raise RemoteProtocolError("a handshake in the middle of a transfer")
        if broker_id < 0 or self.broker_id not in (None, broker_id):
            raise RemoteProtocolError(f"a handshake of broker {broker_id}, before it {self.broker_id}")
        self._handshakes += 1
        if self._handshakes > _HANDSHAKES_MAX:
            raise RemoteProtocolError(f"more than {_HANDSHAKES_MAX} handshakes: it does not read the answers")
        self.broker_id = broker_id
        self.is_learner = bool(is_learner)
        self._last_file_only = bool(last_file_only)
        table = self._table()
        body = b"".join(EPOCH.pack(*entry) for entry in table)
        return HANDSHAKE_REPLY.pack(HAState.HANDSHAKE, len(body), self._log.own_end, table.last_epoch) + body

    def _take_report(self, offset: int) -> None:
        if self.requested == UNKNOWN:
            self._take_start(offset)
        elif offset == 0 == self.requested and self.acknowledged == 0:
            return  # still empty
        elif not max(self.acknowledged, self._start) <= offset <= min(self.next_offset, self._log.own_end):
            raise RemoteProtocolError(
                f"a report of {offset}: the last one was {self.acknowledged}, "
                f"sent was [{self._start}, {self.next_offset}), our log ends at {self._log.own_end}"
            )
        self.acknowledged = offset

    def _take_start(self, offset: int) -> None:
        log = self._log
        start = offset
        if offset == 0:
            start = log.min_offset
            if self._last_file_only:
                start = max(start, log.own_end - log.own_end % log.file_size)
        elif offset > log.own_end:
            raise RemoteProtocolError(
                f"the slave's log ends at {offset}, ours at {log.own_end}: it is ahead of its master"
            )
        elif offset < log.min_offset:
            raise RemoteProtocolError(
                f"the slave's log ends at {offset}, ours begins at {log.min_offset}: what is between was deleted here; "
                "empty the slave's store to let it start again"
            )
        if self._epochs is not None:
            self._entry_at(self._table(), start)
        self.requested = offset
        self._start = self.next_offset = start
