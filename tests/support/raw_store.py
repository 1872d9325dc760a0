"""A second, independent reading of a store's bytes, for tests that must not trust the product's own code.

Works on a plain ``{path: bytes}`` picture of the files. Small and slow on purpose: one obvious way to read
each format, straight from the format page.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DELAYS_MS = [1000 * s for s in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)]
CRC_PROPERTY_BYTES = 20

Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record of the log."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    body: bytes
    properties: dict[str, str]
    raw: bytes
    intact: bool  # body checksum, and the whole-record checksum where there is one
    sealed: bool  # it has a whole-record checksum

    @property
    def end(self) -> int:
        return self.physical_offset + self.size

    @property
    def has_unit(self) -> bool:
        return self.sys_flag & 0xC in (0, 0x8)

    @property
    def keys(self) -> list[str]:
        unique = [self.properties["UNIQ_KEY"]] if self.properties.get("UNIQ_KEY") else []
        return unique + [key for key in self.properties.get("KEYS", "").split(" ") if key]

    @property
    def tags_code(self) -> int:
        delay = int(self.properties.get("DELAY", "0"))
        if self.topic == SCHEDULE_TOPIC and delay > 0:
            return self.store_timestamp + DELAYS_MS[min(delay, len(DELAYS_MS)) - 1]
        return java_hash(self.properties.get("TAGS", ""))

    @property
    def unit(self) -> bytes:
        return struct.pack(">qiq", self.physical_offset, self.size, self.tags_code)


def java_hash(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + units[at] * 256 + units[at + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def parse_record(data: bytes, at: int, physical_offset: int) -> RawRecord | None:
    """The record that starts at ``data[at]`` if it is one and says it belongs at ``physical_offset``."""
    if at + 91 > len(data):
        return None
    size, magic, body_crc, queue_id = struct.unpack_from(">iIIi", data, at)
    if magic not in (MAGIC_V1, MAGIC_V2) or not 91 <= size <= len(data) - at:
        return None
    record = data[at : at + size]
    queue_offset, claimed, sys_flag = struct.unpack_from(">qqi", record, 20)
    if claimed != physical_offset:
        return None
    born = 20 if sys_flag & 0x10 else 8
    stored = 20 if sys_flag & 0x20 else 8
    position = 48 + born
    try:
        store_timestamp = struct.unpack_from(">q", record, position)[0]
        position += 8 + stored + 12
        body_length = struct.unpack_from(">i", record, position)[0]
        if body_length < 0:
            return None
        body = record[position + 4 : position + 4 + body_length]
        position += 4 + body_length
        topic_format = ">B" if magic == MAGIC_V1 else ">H"
        topic_length = struct.unpack_from(topic_format, record, position)[0]
        position += struct.calcsize(topic_format)
        topic = record[position : position + topic_length].decode("utf-8", "replace")
        position += topic_length
        properties_length = max(struct.unpack_from(">h", record, position)[0], 0)
    except struct.error:
        return None
    text = record[position + 2 : position + 2 + properties_length]
    if position + 2 + properties_length != size:
        return None
    intact = body_length == 0 or zlib.crc32(body) & 0x7FFFFFFF == body_crc
    sealed = record[-CRC_PROPERTY_BYTES:].startswith(b"__CRC32#\x01")
    if sealed:
        digits = record[-11:-1]
        checksum = zlib.crc32(record[:-CRC_PROPERTY_BYTES]) & 0x7FFFFFFF
        intact = intact and digits == str(checksum)[::-1].ljust(10, "0").encode()
    return RawRecord(
        physical_offset,
        size,
        topic,
        queue_id,
        queue_offset,
        sys_flag,
        store_timestamp,
        body,
        _properties(text),
        record,
        intact,
        sealed,
    )


def _properties(text: bytes) -> dict[str, str]:
    pairs = (piece.partition("\x01") for piece in text.decode("utf-8", "replace").split("\x02"))
    return {key: value for key, _, value in pairs if key and value}


@dataclass(frozen=True, slots=True)
class RawLog:
    """The log as read record by record from its first file."""

    start: int
    end: int  # of the last record
    position: int  # where the next record belongs: the end, or behind the filler that follows it
    file_size: int
    records: list[RawRecord]
    problems: list[str]  # contradictions inside [start, end)
    stale: list[int]  # positions behind the end where a valid, self-located record still stands


def numbered(files: Files, folder: str) -> dict[int, bytes]:
    """Start offset to content of the 20-digit files of one folder."""
    start = len(folder) + 1
    inside = sorted(path for path in files if len(path) == start + 20 and path.startswith(folder))
    return {int(path[start:]): files[path] for path in inside if path[start:].isdigit() and path[start - 1] == "/"}


def read_log(files: Files, root: str) -> RawLog:
    segments = numbered(files, os.path.join(root, "commitlog"))
    return walk_log(segments)


def walk_log(segments: dict[int, bytes], start: int | None = None) -> RawLog:
    records: list[RawRecord] = []
    problems: list[str] = []
    segments = {base: data for base, data in segments.items() if data}
    starts = sorted(segments)
    file_size = max((len(data) for data in segments.values()), default=0)
    if start is None:
        start = starts[0] if starts else 0
    position = end = start
    while segments and position - position % file_size in segments:
        base = position - position % file_size
        data = segments[base]
        at = position - base
        if len(data) - at >= 8:
            size, magic = struct.unpack_from(">iI", data, at)
            if magic == MAGIC_BLANK:
                if size != len(data) - at:
                    problems.append(f"filler at {position} says {size} of {len(data) - at} bytes")
                position = base + file_size
                continue
        record = parse_record(data, at, position)
        if record is None or not record.intact:
            break
        records.append(record)
        position = end = record.end
    return RawLog(start, end, position, file_size, records, problems, _stale(segments, max(position, end)))


def _stale(segments: dict[int, bytes], end: int) -> list[int]:
    found = []
    for base, data in segments.items():
        at = max(end - base, 0)
        while (at := data.find(b"\xda\xa3\x20", at)) >= 0:
            begin = at - 4
            if begin >= 0 and base + begin >= end:
                record = parse_record(data, begin, base + begin)
                if record is not None and record.intact:
                    found.append(base + begin)
            at += 1
    return found


def read_queue(files: Files, root: str, topic: str, queue_id: int) -> dict[int, bytes]:
    """Queue offset to 20-byte unit, for every slot that is not all zeros."""
    units = {}
    for base, data in numbered(files, os.path.join(root, "consumequeue", topic, str(queue_id))).items():
        for at in range(0, len(data) - len(data) % 20, 20):
            unit = data[at : at + 20]
            if any(unit):
                units[(base + at) // 20] = unit
    return units


FILLER = struct.pack(">qiq", 0, 2**31 - 1, 0)


@dataclass(frozen=True, slots=True)
class RawCheckpoint:
    physic_ms: int
    logics_ms: int
    index_ms: int


def read_checkpoint(files: Files, root: str) -> RawCheckpoint:
    data = files.get(os.path.join(root, "checkpoint"), b"").ljust(24, b"\0")
    return RawCheckpoint(*struct.unpack_from(">qqq", data))


def local_files(root: str) -> Files:
    """The picture of a real directory."""
    files = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as handle:
                files[path] = handle.read()
    return files
