"""Epochs: which master wrote which part of the log, and where two histories part.

Each election gives the new master a higher epoch, and the epoch starts at the end its log then had. So two logs are
equal up to the end of the newest epoch both have with the same start: behind it one of them followed another master.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from flaremq.errors import CorruptionError, InvalidArgumentError

NO_EPOCH = -1  # "none" in a heartbeat to the controller


class EpochEntry(NamedTuple):
    """One epoch; it ends where the next one starts, the last one is open."""

    epoch: int
    start_offset: int


class EpochTable:
    """Epochs in ascending order. A value: changes make a new table."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.entries = tuple(EpochEntry(*entry) for entry in entries)
        previous = EpochEntry(NO_EPOCH, 0)
        for entry in self.entries:
            if entry.epoch <= previous.epoch or entry.start_offset < previous.start_offset:
                raise InvalidArgumentError(f"epochs do not ascend: {tuple(entry)} behind {tuple(previous)}")
            previous = entry

    def __repr__(self) -> str:
        return f"EpochTable({[tuple(entry) for entry in self.entries]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochTable) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[EpochEntry]:
        return iter(self.entries)

    @property
    def last_epoch(self) -> int:
        """The newest epoch, 0 if there is none."""
        return self.entries[-1].epoch if self.entries else 0

    def append(self, epoch: int, start_offset: int) -> EpochTable:
        """With this epoch as the last one.

        Those that start at or behind it go: they have no byte in a log that ends here. (A log can end before the start
        of its last epoch: after a power cut, or when a cut was made and the epochs not yet.)
        """
        if epoch <= self.last_epoch:
            raise InvalidArgumentError(f"epoch {epoch} cannot follow {self.last_epoch}")
        kept = (entry for entry in self.entries if entry.start_offset < start_offset)
        return EpochTable((*kept, (epoch, start_offset)))

    def without_from(self, offset: int) -> EpochTable:
        """Without the epochs that start at or behind ``offset``: what a cut there leaves."""
        return EpochTable(entry for entry in self.entries if entry.start_offset < offset)

    def entry_at(self, offset: int) -> EpochEntry | None:
        """The epoch that the byte at ``offset`` belongs to or will belong to; None before the first one."""
        for entry in reversed(self.entries):
            if entry.start_offset <= offset:
                return entry
        return None

    def end_of(self, epoch: int, log_end: int) -> int:
        """Where this epoch ends in a log that ends at ``log_end``."""
        for entry, following in zip(self.entries, self.entries[1:], strict=False):
            if entry.epoch == epoch:
                return min(following.start_offset, log_end)
        return log_end

    def cut_for(self, master: EpochTable, *, own_end: int, master_end: int) -> int | None:
        """Up to where this log (ending at ``own_end``) is the master's; ``None``: no common history.

        At or above ``own_end`` nothing has to go. A log without epochs was never written in controller mode, and is
        taken as a part of the master's, as RocketMQ does; longer than the master's it cannot be. Two histories that
        both begin with an epoch at 0 have nothing in common if that epoch is not the same: a slave that was in sync
        with a master while both were empty was elected in its place.
        """
        if not self.entries:
            return own_end if own_end <= master_end else None
        known = set(master.entries)
        for entry in reversed(self.entries):
            if entry in known:
                return min(self.end_of(entry.epoch, own_end), master.end_of(entry.epoch, master_end))
        begins = {table.entries[0].start_offset for table in (self, master) if table.entries}
        return 0 if begins == {0} and master.entries else None


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """The text of ``epochFileCheckpoint``: number of entries, CRC-32 of their lines, ``epoch-startOffset`` lines."""
    lines = [f"{epoch}-{start}\n" for epoch, start in entries]
    body = "".join(lines).encode("ascii")
    return f"{len(lines)}\n{crc32(body) & 0x7FFFFFFF}\n".encode("ascii") + body


def parse_epochs(text: bytes) -> list[EpochEntry]:
    """Entries of an ``epochFileCheckpoint``; ``CorruptionError`` if count, checksum or order are wrong."""
    try:
        count, checksum, *lines = text.decode("ascii").splitlines()
        numbers = [tuple(int(part) for part in line.split("-")) for line in lines]
        entries = EpochTable((epoch, start) for epoch, start in numbers).entries
        expected = int(count), int(checksum)
    except (ValueError, InvalidArgumentError) as error:
        raise CorruptionError(f"this is no epoch file: {error}") from error
    body = "".join(f"{line}\n" for line in lines).encode("ascii")
    found = len(lines), crc32(body) & 0x7FFFFFFF
    if expected[0] != found[0] or expected[1] not in (0, found[1]):  # 0: written without a checksum
        raise CorruptionError("count or checksum of an epoch file", expected=expected, found=found)
    return list(entries)
