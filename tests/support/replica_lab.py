"""A log fed to a replica: pieces of whole records, cut where a test likes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from flaremq.message.record.codec import BLANK, MAGIC_BLANK
from flaremq.storage.engine.driver import StoreDriver


class Log(NamedTuple):
    """The bytes of a log from some file start on."""

    start: int
    data: bytes
    file_size: int

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def piece(self, start: int, end: int) -> bytes:
        return self.data[start - self.start : end - self.start]

    def ends(self) -> list[int]:
        """Where records and fillers end."""
        found, at = [], 0
        while at < len(self.data):
            size, magic = BLANK.unpack_from(self.data, at)
            assert size > 0, f"no record stands at {self.start + at}"
            if magic == MAGIC_BLANK:
                assert (self.start + at + size) % self.file_size == 0, "a filler ends with its file"
            at += size
            found.append(self.start + at)
        return found

    def pieces(self, after: int, chance: random.Random, records_max: int) -> Iterator[tuple[int, bytes]]:
        """(offset, whole records) from ``after`` to the end, a few records at a time."""
        ends = [end for end in self.ends() if end > after]
        while ends:
            count = chance.randint(1, records_max)
            yield after, self.piece(after, ends[:count][-1])
            after = ends[:count][-1]
            ends = ends[count:]


def log_of(driver: StoreDriver) -> Log:
    """Everything a store's log holds, as a master would send it."""
    data, offset = bytearray(), driver.min_offset
    while (view := driver.transfer_view(offset, driver.appended, 1 << 30)) is not None:
        data += view
        offset += len(view)
    return Log(driver.min_offset, bytes(data), driver.file_size)


def feed(replica: StoreDriver, log: Log, *, records_max: int = 1000, seed: int = 0) -> None:
    """Append what the replica has not, as its master would send it."""
    if replica.is_empty:
        replica.begin_at(log.start)
    for offset, data in log.pieces(replica.appended, random.Random(seed), records_max):
        assert replica.append_replica(offset, data) == offset + len(data)
