"""Records of the log that contain some bytes, found without decoding the others.

For those who look for a few records in a stretch of the log of an open store: a walk over frames and a search for
bytes cost half a microsecond a record. A record found may hold the bytes anywhere, also in its body. Checksums are left
to recovery, which has just looked at the end of the log when somebody has a reason to search there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from flaremq.message.message_ext import MessageExt
from flaremq.message.record.codec import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.resync import next_record

_FRAME: Final = Struct(">ii")  # size, magic
_WINDOW_BYTES: Final = 4 << 20


def find_records(log: CommitLog, start: int, end: int, marks: Sequence[bytes]) -> Iterator[MessageExt]:
    """Records of [start, end) that contain one of ``marks``, in order; ``start`` must be where a record starts.

    Bytes that are no record are stepped over, as dispatch does it.
    """
    files = log.files
    offset = max(start, log.min_offset)
    while offset < end:
        file = files.find(offset)
        if file is None:
            return
        length = min(_WINDOW_BYTES, file.end - offset, end - offset)
        if length < _FRAME.size:
            offset += length
            continue
        view = file.view(offset - file.start, length)
        if view is None:
            return
        size, magic = _FRAME.unpack_from(view)
        if magic == MAGIC_BLANK:
            offset = file.end
            continue
        if size > length and magic in (MAGIC_V1, MAGIC_V2):
            view = file.view(offset - file.start, size)  # larger than a window; None if no file is so large
        data = b"" if view is None else bytes(view)
        passed = 0
        for at, size in _frames(data):
            if any(data.find(mark, at, at + size) >= 0 for mark in marks):
                yield MessageExt(data[at : at + size])
            passed = at + size
        if passed:
            offset += passed
            continue
        after = next_record(files, offset, end)
        if after is None:
            return
        offset = after


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    """(place, size) of the whole records at the beginning of ``data``."""
    at, end = 0, len(data) - _FRAME.size
    unpack = _FRAME.unpack_from
    while at <= end:
        size, magic = unpack(data, at)
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_SIZE_MIN or at + size > len(data):
            return
        yield at, size
        at += size
