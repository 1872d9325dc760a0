"""A master's log in memory, and the two ends of a connection joined by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flaremq.message.record.layout import BLANK, MAGIC_BLANK
from flaremq.replication.epochs import EpochTable
from flaremq.replication.follower import AddEpoch, Append, Begin, Confirm, Cut, Follower, FollowerSettings, Step
from flaremq.replication.source import Source, SourceSettings
from tests.message.records import make_record

FILE_SIZE = 4096


class MemoryLog:
    """Log bytes from ``min_offset`` on, with fillers at file ends; a ``SourceLog``."""

    def __init__(self, min_offset: int = 0, *, file_size: int = FILE_SIZE, data: bytes = b"") -> None:
        self.min_offset = min_offset
        self.file_size = file_size
        self.data = bytearray(data)
        self.held_back = 0  # bytes at the end that may not be sent yet
        self.record_ends = [min_offset]

    @property
    def own_end(self) -> int:
        return self.min_offset + len(self.data)

    @property
    def end_offset(self) -> int:
        return self.own_end - self.held_back

    def put(self, body: bytes = b"hello", **fields: object) -> int:
        """Append a record, after a filler if it does not fit into the file; the log's new end."""
        size = len(make_record(body=body, **fields))
        room = self.file_size - self.own_end % self.file_size
        if size + BLANK.size > room:
            self.data += BLANK.pack(room, MAGIC_BLANK) + bytes(room - BLANK.size)
            self.record_ends.append(self.own_end)
        self.data += make_record(body=body, physical_offset=self.own_end, **fields)
        self.record_ends.append(self.own_end)
        return self.own_end

    def fill(self, count: int, body_size: int = 300) -> None:
        for number in range(count):
            self.put(bytes([number % 251]) * (body_size + number % 7))

    def read(self, offset: int, length: int) -> bytes:
        at = offset - self.min_offset
        return bytes(self.data[at : at + length])


class Replica:
    """A slave's log as the steps make it."""

    def __init__(self, offset: int = 0, data: bytes = b"", *, epochs: EpochTable | None = None) -> None:
        self.start = offset
        self.data = bytearray(data)
        self.epochs = epochs
        self.confirmed = -1
        self.cut_at: int | None = None
        self.begun = 0

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def do(self, steps: Iterable[Step]) -> None:
        for step in steps:
            assert self.cut_at is None
            if isinstance(step, Begin):
                assert not self.data
                self.start = step.offset
                self.begun += 1
            elif isinstance(step, Append):
                assert step.offset == self.end
                self.data += step.data
            elif isinstance(step, AddEpoch):
                assert self.epochs is not None
                assert step.start_offset <= self.end
                self.epochs = self.epochs.append(*step)
            elif isinstance(step, Confirm):
                assert self.confirmed < step.offset <= self.end
                self.confirmed = step.offset
            elif isinstance(step, Cut):
                self.cut_at = step.offset

    def follower(
        self, file_size: int = FILE_SIZE, *, now: float = 0.0, broker_id: int = 2, **settings: object
    ) -> Follower:
        return Follower(
            FollowerSettings(file_size=file_size, **settings),  # type: ignore[arg-type]
            log_end=self.end,
            is_empty=not self.data,
            now=now,
            epochs=self.epochs,
            broker_id=broker_id,
        )


def source_of(
    log: MemoryLog, *, now: float = 0.0, epochs: Callable[[], EpochTable | None] | None = None, **settings: object
) -> Source:
    return Source(log, SourceSettings(**settings), now=now, epochs=epochs)  # type: ignore[arg-type]


def drain(source: Source, log: MemoryLog, now: float = 0.0, confirm: int = 0) -> bytes:
    """Everything the source would send now, as it goes over the wire."""
    sent = bytearray()
    while (span := source.next_span(now, confirm)) is not None:
        assert log.min_offset <= span.offset
        assert span.offset + span.length <= log.end_offset
        sent += span.header + log.read(span.offset, span.length)
    return bytes(sent)


def converse(source: Source, log: MemoryLog, follower: Follower, replica: Replica, now: float = 0.0) -> None:
    """Let both ends talk until nobody has anything to say."""
    up = follower.hello()
    while up:
        down = source.receive(up, now) + drain(source, log, now)
        replica.do(follower.receive(down, now))
        if follower.failure is not None:
            raise follower.failure
        up = follower.report(replica.end, now)
