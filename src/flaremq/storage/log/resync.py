"""Where the log goes on behind bytes that are no record: asked by recovery, and by dispatch in a running store."""

from __future__ import annotations

from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.record.codec import MAGIC_BLANK
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.files.mapped_file_queue import MappedFileQueue

_MAGIC_PREFIX = b"\xda\xa3\x20"
_BLANK_MAGIC = MAGIC_BLANK.to_bytes(4, "big", signed=True)
SEARCH_CHUNK = 1 << 20


def next_record(files: MappedFileQueue, position: int, end: int | None = None) -> int | None:
    """The first whole record (or filler with a file behind it) after ``position``.

    ``end`` is where appended records end; without it, all data on disk is searched.
    """
    for file in files.files:
        if file.end <= position or (end is not None and file.start >= end):
            continue
        if end is None:
            window, limit = file.buffer, min(file.file().data_end(), file.size)
        else:
            limit = min(end - file.start, file.size)
            window = file.buffer[:limit]
        found = _next_in(file, window, max(position + 1 - file.start, 0), limit, is_last=file is files.last)
        if found is not None:
            return file.start + found
    return None


def _next_in(file: MappedFile, window: memoryview, at: int, limit: int, *, is_last: bool) -> int | None:
    while at < limit:
        chunk = bytes(window[at : min(at + SEARCH_CHUNK + 8, limit)])
        for magic_at in _candidates(chunk):
            start = at + magic_at - 4
            if start < 0:
                continue
            verdict = check_record(window, start, physical_offset=file.start + start)
            if verdict.ok or (
                verdict.reason is CheckReason.BLANK and verdict.size == file.size - start and not is_last
            ):
                return start
        at += SEARCH_CHUNK
    return None


def _candidates(chunk: bytes) -> list[int]:
    """Places of a magic number, ascending."""
    places = []
    for magic in (_MAGIC_PREFIX, _BLANK_MAGIC):
        at = chunk.find(magic)
        while at >= 0:
            places.append(at)
            at = chunk.find(magic, at + 1)
    return sorted(places)
