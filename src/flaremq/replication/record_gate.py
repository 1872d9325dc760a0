"""What may enter a replica's log: whole records and fillers, each checked, in order. Everything else stays outside.

The stream cuts records anywhere. The gate hands out runs of whole records as views of what it was given and keeps the
half one behind them until the rest has come, so a replica's log always ends where a record ends. A record passes if
its magic, sizes and lengths are right, it names the place it will have, its checksums match, and it ends inside its
file. A filler passes if it reaches exactly to the end of its file; with another file size than the master's it cannot.

Never more than one record is kept, and its announced size only bounds what will be waited for.
"""

from __future__ import annotations

from flaremq.core.record import walk
from flaremq.core.table import CHECK_BODY_CRC, CHECK_RECORD_CRC, END, FULL, HEADERS_ONLY, RecordTable
from flaremq.errors import CorruptionError
from flaremq.message.record.check import check_record
from flaremq.message.record.layout import BLANK, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN

# A record comes in by one remoting frame, of 16 MiB at most; what a broker adds to it is less than the rest.
RECORD_SIZE_MAX = 17 << 20
_CHECKS = CHECK_BODY_CRC | CHECK_RECORD_CRC | HEADERS_ONLY
_ROWS = 1024  # of a quarter of a megabyte; a walk that fills them goes on with the next rows
_HEAD = BLANK.size  # size and magic, of a record as of a filler


class RecordGate:
    """Bytes of the master's log in, in order; runs of whole checked records out."""

    __slots__ = ("_file_size", "_held", "_record_size_max", "_table", "offset")

    def __init__(self, offset: int, *, file_size: int, record_size_max: int = RECORD_SIZE_MAX) -> None:
        self.offset = offset  # end of what was handed out
        self._file_size = file_size
        self._record_size_max = min(record_size_max, file_size)
        self._held = bytearray()
        self._table = RecordTable(_ROWS)

    @property
    def held_bytes(self) -> int:
        """Bytes of a record that is not whole yet."""
        return len(self._held)

    @property
    def next_offset(self) -> int:
        """Where the next byte must come from."""
        return self.offset + len(self._held)

    def take(self, data: memoryview, runs: list[tuple[int, bytes | memoryview]]) -> None:
        """Add to ``runs``, as (offset, bytes), what is whole now. The views are of ``data``.

        ``CorruptionError`` if no record stands where one must; the runs before it are good.
        """
        at = self._complete(data, runs) if self._held else 0
        while at < len(data):
            at = self._pass_run(data, at, runs)

    def _complete(self, data: memoryview, runs: list[tuple[int, bytes | memoryview]]) -> int:
        """Add to the record that is not whole; bytes of ``data`` that were used."""
        held = self._held
        used = 0
        if len(held) < _HEAD:
            used = min(_HEAD - len(held), len(data))
            held += data[:used]
            if len(held) < _HEAD:
                self._announced(held, 0)  # what there is of a file's last bytes may be wrong already
                return used
        wanted = self._announced(held, 0)
        part = min(wanted - len(held), len(data) - used)
        held += data[used : used + part]
        if len(held) == wanted:
            whole = bytes(held)
            self._held = bytearray()
            self._check_alone(whole)
            runs.append((self.offset, whole))
            self.offset += wanted
        return used + part

    def _pass_run(self, data: memoryview, at: int, runs: list[tuple[int, bytes | memoryview]]) -> int:
        """Hand out whole records from ``at`` on, up to the file's end; keep a half one. Where that ended."""
        base = self.offset - at
        start = at
        limit = min(len(data), self._file_end() - base)
        try:
            while at < limit:
                _, at, stop = walk(data, at, limit, base, _CHECKS, self._table.cells)
                if stop in (FULL, END):
                    continue
                wanted = self._announced(data, at, self.offset + at - start)
                if wanted > limit - at:
                    self._held += data[at:]
                    return len(data)
                self._check_alone(data[at : at + wanted], self.offset + at - start)
                at += wanted
        finally:
            if at > start:
                runs.append((self.offset, data[start:at]))
                self.offset += at - start
        return at

    def _file_end(self) -> int:
        return self.offset - self.offset % self._file_size + self._file_size

    def _announced(self, data: bytes | bytearray | memoryview, at: int, offset: int | None = None) -> int:
        """Size of what starts at ``at``, or as many bytes as are needed to know it."""
        if offset is None:
            offset = self.offset
        room = self._file_size - offset % self._file_size
        if room < _HEAD:
            raise CorruptionError("a log file's last bytes are neither record nor filler", offset=offset)
        if len(data) - at < _HEAD:
            return _HEAD
        size, magic = BLANK.unpack_from(data, at)
        if magic == MAGIC_BLANK:
            # A record that did not fit into the rest of the file stood behind it: the rest is no larger than that.
            if size != room or size > self._record_size_max + _HEAD:
                raise CorruptionError(
                    "a filler that does not reach exactly to the end of the file",
                    offset=offset,
                    expected=room,
                    found=size,
                    advice="; do both brokers have the same mappedFileSizeCommitLog?",
                )
        elif magic not in (MAGIC_V1, MAGIC_V2):
            raise CorruptionError("no record starts here", offset=offset, found=f"{magic & 0xFFFFFFFF:08x}")
        elif not RECORD_SIZE_MIN <= size <= min(self._record_size_max, room):
            raise CorruptionError("a record of an impossible size", offset=offset, found=size)
        return int(size)

    def _check_alone(self, whole: bytes | memoryview, offset: int | None = None) -> None:
        """One record or filler, of the size it announces; the error names the reason."""
        if offset is None:
            offset = self.offset
        if BLANK.unpack_from(whole)[1] == MAGIC_BLANK:
            return
        if walk(whole, 0, len(whole), offset, _CHECKS, self._table.cells)[0]:
            return
        check = check_record(whole, physical_offset=offset)  # slowly, for the reason
        if not check.ok:
            raise CorruptionError(f"a record that must not enter the log: {check.reason.value}", offset=offset)
