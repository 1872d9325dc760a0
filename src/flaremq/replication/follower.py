"""The slave's end of one HA connection.

The shell sends ``hello()`` when it is connected, gives every read to ``receive`` and does the steps that come out, in
order; then it asks ``report`` with what its log now holds and sends the answer. ``tick`` is asked at ``due()``.

What must hold before the next byte is believed: a frame's offset is the end of our log plus what the gate keeps back,
its size is bounded, in controller mode its epoch is ours or follows ours. A wrong frame ends the connection; steps that
came before it are still handed out, the error with the next call (``failure`` has it at once).

Classic masters tell no epochs, and a log from before a controller has none. Given its last bytes (``tail``), the
follower asks for them again and compares: a master that lost its end and wrote another one, or has another past, is
found out before a byte of it is appended. Nothing is reported until that is done.

Views in ``Append`` belong to the buffer given to ``receive``: done with them before that is filled again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flaremq.errors import FlareMQError, LocalProtocolError, RemoteProtocolError, UnavailableError
from flaremq.replication.epochs import EpochEntry, EpochTable
from flaremq.replication.frames import (
    DATA,
    EPOCH,
    EPOCHS_MAX,
    FRAME_SIZE_MAX,
    HANDSHAKE,
    HANDSHAKE_REPLY,
    REPORT,
    STATE_DATA,
    STATE_REPORT,
    HAState,
)
from flaremq.replication.record_gate import RECORD_SIZE_MAX, RecordGate


class Begin(NamedTuple):
    """The empty log begins here, at a file's start."""

    offset: int


class Append(NamedTuple):
    """Whole checked records (and fillers) for the end of the log."""

    offset: int
    data: bytes | memoryview


class AddEpoch(NamedTuple):
    """What follows was written in this epoch: to be on disk before the bytes behind it are reported."""

    epoch: int
    start_offset: int


class Confirm(NamedTuple):
    """Readers may see what lies below."""

    offset: int


class Cut(NamedTuple):
    """Our log follows another history from here on. The connection is over; cut, and connect again."""

    offset: int


Step = Begin | Append | AddEpoch | Confirm | Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerSettings:
    """Seconds and bytes. ``last_file_only`` and ``is_learner`` are told the master in controller mode."""

    file_size: int
    heartbeat_s: float = 5.0
    silence_max_s: float = 20.0
    record_size_max: int = RECORD_SIZE_MAX
    last_file_only: bool = False
    is_learner: bool = False
    master_epoch_min: int = 0  # what the controller named; a master with a lower last epoch was deposed


class Follower:
    """One connection to the master. ``log_end`` must be what may be reported: with SYNC_FLUSH, sync before.

    With ``epochs`` the dialect is that of controller mode.
    """

    def __init__(
        self,
        settings: FollowerSettings,
        *,
        log_end: int,
        is_empty: bool,
        now: float,
        epochs: EpochTable | None = None,
        broker_id: int = 0,
        tail: bytes = b"",
    ) -> None:
        self.failure: FlareMQError | None = None
        self.epochs = epochs
        self.master_end = -1  # from the handshake, or where the last frame ended
        self._settings = settings
        self._broker_id = broker_id
        self._is_empty = is_empty
        self._gate = self._gate_at(0 if is_empty else log_end)
        self._is_transferring = epochs is None
        has_history = epochs is not None and len(epochs) > 0
        self._tail = b"" if is_empty or has_history else tail  # of our log, still to be compared
        self._has_waited = False  # for the rest of it
        self._handshakes_open = 0
        self._reported = -1
        self._head = bytearray()  # of a frame that is not complete
        self._left = 0  # data bytes of the current frame still to come
        self._master_epochs = EpochTable()  # as of the handshake
        self._next_epoch: EpochEntry | None = None  # announced, its first byte not reached
        self._confirm = -1  # as the master says
        self._confirmed = -1  # as handed out
        self._last_read = now
        self._last_written = now

    @property
    def log_end(self) -> int:
        """End of what was handed out."""
        return self._gate.offset

    @property
    def is_comparing(self) -> bool:
        """The master has not shown yet that it has the end of our log (which has no epochs, with a tail)."""
        return bool(self._tail)

    def hello(self) -> bytes:
        """To be sent as soon as the connection stands."""
        if self.epochs is None:
            return self._report(self._gate.offset - len(self._tail))
        self._handshakes_open += 1
        settings = self._settings
        return HANDSHAKE.pack(HAState.HANDSHAKE, settings.last_file_only, settings.is_learner, self._broker_id)

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> list[Step]:
        """What to do with this read. ``RemoteProtocolError`` or ``CorruptionError``: close the connection."""
        if self.failure is not None:
            raise self.failure
        self._last_read = now
        steps: list[Step] = []
        view = memoryview(data)
        at = 0
        try:
            while at < len(view):
                if self._left:
                    part = min(self._left, len(view) - at)
                    self._take(view[at : at + part], steps)
                    self._left -= part
                    at += part
                elif self.epochs is None and not self._head and len(view) - at >= DATA.size:
                    offset, n = DATA.unpack_from(view, at)  # as nearly always: whole
                    self._open_frame(offset, n, DATA.size, steps)
                    at += DATA.size
                else:
                    at += self._take_head(view[at:], steps)
        except FlareMQError as error:
            self.failure = error
            if not steps:
                raise
        return steps

    def report(self, held: int, now: float) -> bytes:
        """To be sent when ``held`` (the durable or appended end of our log, as promised) may have grown."""
        if held > self._gate.offset:
            raise LocalProtocolError(f"a report of {held} above the log's end {self._gate.offset}")
        if self._tail and self._is_transferring and self._reported < 0:
            held = self._gate.offset - len(self._tail)  # after a handshake: nothing was said yet
        elif not self._is_transferring or self._tail or held <= self._reported:
            return b""
        self._last_written = now
        return self._report(held)

    def tick(self, now: float) -> bytes:
        """A heartbeat if one is due; ``UnavailableError`` if the master was silent for too long."""
        if self.failure is not None:
            raise self.failure
        if now - self._last_read > self._settings.silence_max_s:
            raise UnavailableError(f"nothing from the master for {now - self._last_read:.1f} s")
        if now - self._last_written < self._settings.heartbeat_s:
            return b""
        self._last_written = now
        if self._is_transferring:
            return self._report(max(self._reported, 0))
        return self.hello()

    def due(self) -> float:
        """When ``tick`` will have something to do."""
        settings = self._settings
        return min(self._last_written + settings.heartbeat_s, self._last_read + settings.silence_max_s)

    def _report(self, offset: int) -> bytes:
        self._reported = offset
        if self.epochs is None:
            return REPORT.pack(offset)
        return STATE_REPORT.pack(HAState.TRANSFER, offset)

    def _gate_at(self, offset: int) -> RecordGate:
        settings = self._settings
        return RecordGate(offset, file_size=settings.file_size, record_size_max=settings.record_size_max)

    def _compare(self, data: memoryview) -> memoryview:
        """The master's bytes beside those of our tail; what lies behind it."""
        part = min(len(self._tail), len(data))
        if data[:part] != self._tail[:part]:
            raise RemoteProtocolError(
                f"the master has other bytes than we between {self._next_offset} and {self._gate.offset}, the end of "
                "our log: it lost the end of its own and wrote another one"
            )
        self._tail = self._tail[part:]
        return data[part:]

    @property
    def _next_offset(self) -> int:
        return self._gate.next_offset - len(self._tail)

    def _take(self, data: memoryview, steps: list[Step]) -> None:
        if self._tail:
            data = self._compare(data)
            if not self._tail:
                self._adopt_epochs(steps)
        runs: list[tuple[int, bytes | memoryview]] = []
        try:
            self._gate.take(data, runs)
        finally:
            for offset, run in runs:
                self._is_empty = False
                steps.append(Append(offset, run))
            if runs:
                self._follow_up(steps)

    def _adopt_epochs(self, steps: list[Step]) -> None:
        """Our log, which had no epochs, is a part of the master's: so are those of the handshake."""
        for entry in self._master_epochs:
            if self.epochs is not None and entry.start_offset < self._gate.offset:
                self._add_epoch(entry, steps)
        self._follow_up(steps)

    def _follow_up(self, steps: list[Step]) -> None:
        """What the new end of the log brings with it: the next epoch, a higher confirm offset."""
        if self._tail:
            return  # it may not be the master's log at all
        end = self._gate.offset
        if self._next_epoch is not None and end >= self._next_epoch.start_offset:
            self._add_epoch(self._next_epoch, steps)
        if min(self._confirm, end) > self._confirmed:
            self._confirmed = min(self._confirm, end)
            steps.append(Confirm(self._confirmed))

    def _take_head(self, view: memoryview, steps: list[Step]) -> int:
        """Collect a frame's header and act on it; bytes used."""
        wanted = self._head_size()
        part = min(wanted - len(self._head), len(view))
        self._head += view[:part]
        if len(self._head) == self._head_size() == wanted:
            head = bytes(self._head)
            self._head.clear()
            if self.epochs is None:
                offset, n = DATA.unpack(head)
                self._open_frame(offset, n, DATA.size, steps)
            elif int.from_bytes(head[:4], "big") == HAState.HANDSHAKE:
                self._shake(head, steps)
            else:
                self._open_state_frame(head, steps)
        return part

    def _head_size(self) -> int:
        """Bytes to collect, as far as is known by now."""
        if self.epochs is None:
            return DATA.size
        head = self._head
        if len(head) < HANDSHAKE_REPLY.size:
            return HANDSHAKE_REPLY.size  # the smaller of the two
        state, size = STATE_REPORT.unpack_from(head)[0], int.from_bytes(head[4:8], "big", signed=True)
        if state == HAState.TRANSFER:
            return STATE_DATA.size
        if state != HAState.HANDSHAKE:
            raise RemoteProtocolError(f"the master sent a frame of state {state}")
        if not 0 <= size <= EPOCHS_MAX * EPOCH.size or size % EPOCH.size:
            raise RemoteProtocolError(f"the master announced {size} bytes of epochs")
        return HANDSHAKE_REPLY.size + size

    def _open_frame(self, offset: int, n: int, head_size: int, steps: list[Step]) -> None:
        if not 0 <= n <= FRAME_SIZE_MAX - head_size:
            raise RemoteProtocolError(f"the master announced {n} data bytes at {offset}")
        if self._is_empty and not self._gate.held_bytes:
            self._begin(offset, n, steps)
        elif offset != self._next_offset:
            gate = self._gate
            kept = f" and {gate.held_bytes} bytes of a record" if gate.held_bytes else ""
            raise RemoteProtocolError(
                f"the master sends from {offset}, our log ends at {gate.offset}{kept}: "
                + (
                    "its log does not have our last bytes"
                    if offset < self._next_offset
                    else "bytes are missing between"
                )
            )
        if n == 0 and self._tail:
            self._look_for_end(offset)
        self._left = n
        self.master_end = max(self.master_end, offset + n)

    def _look_for_end(self, offset: int) -> None:
        """A master that has our tail sends it before any heartbeat, but for one that was due when we came."""
        if self._has_waited:
            raise RemoteProtocolError(
                f"our log ends at {self._gate.offset}, and the master has nothing from {offset} on: we are ahead of "
                "our master, or it has deleted what we need"
            )
        self._has_waited = True

    def _begin(self, offset: int, n: int, steps: list[Step]) -> None:
        if offset < 0 and n == 0 and self.epochs is not None:
            return  # a Java master without a log
        if offset < 0 or offset % self._settings.file_size:
            raise RemoteProtocolError(
                f"the master's log begins at {offset}, no multiple of our file size {self._settings.file_size}; "
                "do both brokers have the same mappedFileSizeCommitLog?"
            )
        if offset != self._gate.offset:
            self._gate = self._gate_at(offset)
            steps.append(Begin(offset))

    def _shake(self, head: bytes, steps: list[Step]) -> None:
        """The master's epochs: find where our histories part."""
        own = self.epochs
        assert own is not None
        if self._handshakes_open == 0:
            raise RemoteProtocolError("the master answered a handshake that was not sent")
        self._handshakes_open -= 1
        _, _, master_end, last_epoch = HANDSHAKE_REPLY.unpack_from(head)
        if self._is_transferring:
            return  # the answer to a second handshake, sent before the first was answered
        try:
            master = EpochTable(EPOCH.iter_unpack(head[HANDSHAKE_REPLY.size :]))
        except FlareMQError as error:
            raise RemoteProtocolError(f"the master's handshake: {error}") from error
        newest = max(own.last_epoch, self._settings.master_epoch_min)
        if master.last_epoch < newest or last_epoch < newest:
            raise RemoteProtocolError(f"the master is of epoch {last_epoch}, epoch {newest} is known: it was deposed")
        own_end = self._gate.offset
        self.master_end = master_end
        cut = own_end if self._is_empty else own.cut_for(master, own_end=own_end, master_end=master_end)
        if cut is None:
            raise RemoteProtocolError(
                f"no common history: ours {own} ends at {own_end}, the master's {master} at {master_end}"
            )
        if cut < own_end:
            steps.append(Cut(cut))
            raise RemoteProtocolError(f"our log follows another history from {cut} on and ends at {own_end}: cut it")
        self._master_epochs = master
        if self._tail and len(master) and master.entries[0].start_offset > own_end - len(self._tail):
            self._tail = b""  # a Java master sends nothing from before its first epoch
        self._is_transferring = True

    def _open_state_frame(self, head: bytes, steps: list[Step]) -> None:
        _, n, offset, epoch, epoch_start, confirm = STATE_DATA.unpack(head)
        if not self._is_transferring:
            raise RemoteProtocolError("the master sends data before it answered the handshake")
        self._open_frame(offset, n, STATE_DATA.size, steps)
        self._confirm = confirm
        if offset >= 0 and epoch > 0:
            self._meet_epoch(EpochEntry(epoch, epoch_start), offset + n, steps)
        self._follow_up(steps)

    def _meet_epoch(self, entry: EpochEntry, frame_end: int, steps: list[Step]) -> None:
        """Compare a frame's epoch with ours. A new one starts where our log ends, or (Java) at the frame's end."""
        if self._tail:
            return  # those of the handshake are taken over when it is compared
        here = self._gate.next_offset
        if entry.start_offset == frame_end > here:
            # What the frame brings is of an epoch that it does not name; the handshake did.
            earlier = self._master_epochs.entry_at(here)
            if earlier is not None and earlier.epoch < entry.epoch:
                self._meet_epoch(earlier, here, steps)
        own = self.epochs
        assert own is not None
        last = own.entries[len(own.entries) - 1] if own.entries else None  # compiled, there are no negative places
        if last is not None and entry.epoch <= last.epoch:
            if entry not in own.entries:
                raise RemoteProtocolError(f"the master's epoch {tuple(entry)} contradicts ours {own}")
            return
        is_first = last is None and entry.start_offset <= here
        if not (is_first or entry.start_offset in (here, frame_end)) or (
            self._gate.held_bytes and entry.start_offset == here
        ):
            raise RemoteProtocolError(f"the master's epoch {tuple(entry)} cannot begin in a frame from {here}")
        if entry.start_offset > here:
            self._next_epoch = entry
        else:
            self._add_epoch(entry, steps)

    def _add_epoch(self, entry: EpochEntry, steps: list[Step]) -> None:
        assert self.epochs is not None
        self._next_epoch = None
        self.epochs = self.epochs.append(*entry)
        steps.append(AddEpoch(*entry))
