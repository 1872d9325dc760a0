"""Where the log goes on behind bytes that are no record: for recovery, dispatch and walks over stores at rest.

A candidate is any place where a magic number stands. It counts if a whole record is there whose checksums hold and
which names this place as its own, or a filler that reaches exactly to the end of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from flaremq.core.record import nonzero_end
from flaremq.message.record.check import check_record
from flaremq.message.record.codec import MAGIC_BLANK
from flaremq.storage.files.mapped_file_queue import MappedFileQueue

BLANK_MAGIC = MAGIC_BLANK.to_bytes(4, "big", signed=True)
_MAGIC_PREFIX = b"\xda\xa3\x20"  # common to both record versions; see the format page, 2.2
_HEADER_BYTES_MAX = 112  # up to and including BODYLENGTH with two IPv6 hosts
_OVERHEAD_BYTES_MAX = 112 + 2 + 32767 + 2 + 32767  # everything but the body at its largest
_CHUNK_BYTES = 1 << 20


class Stretch(NamedTuple):
    """One file of a log as a search sees it; all but ``start`` are file offsets."""

    start: int  # physical offset of the file
    file_size: int  # a filler reaches to here
    data_end: int  # only zeros from here on
    end: int  # records end here at the latest
    read: Callable[[int, int], bytes]  # file offset, length
    filler_counts: bool = True


def next_record(files: MappedFileQueue, position: int, end: int | None = None) -> int | None:
    """The first whole record (or filler with a file behind it) after ``position``.

    ``end`` is where appended records end; without it, all data on disk is searched.
    """
    return search_record(_mapped_stretches(files, position, end), position)[0]


def _mapped_stretches(files: MappedFileQueue, position: int, end: int | None) -> Iterator[Stretch]:
    for file in files.files:
        if file.end <= position or (end is not None and file.start >= end):
            continue
        limit = file.size if end is None else min(end - file.start, file.size)
        data_end = limit
        if end is None:  # zeros behind the last byte are not searched
            data_end = nonzero_end(file.buffer, max(position - file.start, 0), min(file.file().data_end(), limit))
        read = partial(_read_view, file.buffer)
        yield Stretch(file.start, file.size, data_end, limit, read, filler_counts=file is not files.last)


def _read_view(view: memoryview, at: int, length: int) -> bytes:
    return bytes(view[at : at + length])


def search_record(stretches: Iterable[Stretch], after: int) -> tuple[int | None, int]:
    """The first record or filler behind ``after``, and how far behind it bytes that are not zero were seen."""
    leftover = 0
    for stretch in stretches:
        at = max(after - stretch.start, 0)
        while at < stretch.data_end:
            # Chunks overlap by what shows size and magic, so a candidate at the seam is seen whole.
            data = stretch.read(at, min(_CHUNK_BYTES + 8, stretch.end - at))
            content = b"" if data == _zeros(len(data)) else data.rstrip(b"\0")
            if content:
                leftover = stretch.start + at + len(content) - after
                for magic_at in _magic_places(data):
                    place = at + magic_at - 4
                    if place >= 0 and stretch.start + place > after and _stands_at(stretch, place):
                        return stretch.start + place, leftover
            at += _CHUNK_BYTES
    return None, leftover


def _stands_at(stretch: Stretch, place: int) -> bool:
    head = stretch.read(place, min(_HEADER_BYTES_MAX, stretch.end - place))
    if head[4:8] == BLANK_MAGIC:
        return stretch.filler_counts and int.from_bytes(head[:4], "big", signed=True) == stretch.file_size - place
    size = stated_size(head)
    if not 0 < size <= stretch.end - place:
        return False
    return check_record(stretch.read(place, size), physical_offset=stretch.start + place).ok


def stated_size(head: bytes) -> int:
    """TOTALSIZE if the header makes it believable, else 0: a flipped bit must not make us read a gigabyte."""
    if head[4:7] != _MAGIC_PREFIX:
        return 0
    size = int.from_bytes(head[:4], "big", signed=True)
    sys_flag = int.from_bytes(head[36:40], "big", signed=True)
    body_at = 84 + 12 * bool(sys_flag & 0x10) + 12 * bool(sys_flag & 0x20)
    body = int.from_bytes(head[body_at : body_at + 4], "big", signed=True)
    return size if 0 <= body < size <= body + _OVERHEAD_BYTES_MAX else 0


@lru_cache(maxsize=2)
def _zeros(length: int) -> bytes:
    """To compare a chunk with: ten times as fast as stripping it."""
    return bytes(length)


def _magic_places(data: bytes) -> Iterator[int]:
    """Where a magic number might stand, ascending."""
    record, blank = data.find(_MAGIC_PREFIX), data.find(BLANK_MAGIC)
    while record >= 0 or blank >= 0:
        if blank < 0 or 0 <= record < blank:
            yield record
            record = data.find(_MAGIC_PREFIX, record + 1)
        else:
            yield blank
            blank = data.find(BLANK_MAGIC, blank + 1)
