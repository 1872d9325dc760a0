"""Stores compared file by file: log bytes, queue units, index entries of one replica against its master's.

Both must be stopped: a store may keep queues and index in memory for a moment. A replica may begin later than its
master (RocketMQ sends an empty slave the last file only), so everything is compared from where the replica begins.

Standard library only, and no code of ours: what is tested here must not vouch for itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# A unit of a queue: physical offset, size, tags code. An entry of an index: hash, physical offset, seconds, previous.
_UNIT = struct.Struct(">qiq")
_ENTRY = struct.Struct(">iqii")
_INDEX_HEADER = struct.Struct(">qqqqii")
_FILLER_SIZE = 0x7FFFFFFF  # of units that stand for offsets below a queue's begin
_MESSAGE, _MESSAGE_V2, _BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194

Units = dict[tuple[str, int], dict[int, bytes]]


@dataclass(frozen=True, slots=True)
class Log:
    """The bytes of a commit log from the start of its first file to behind its last whole record."""

    begin: int
    data: bytes
    file_size: int

    @property
    def end(self) -> int:
        return self.begin + len(self.data)


def read_log(store: Path, file_size: int) -> Log:
    files = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    if not files:
        return Log(0, b"", file_size)
    begin = int(files[0].name)
    for number, path in enumerate(files):
        assert int(path.name) == begin + number * file_size, f"{path} is out of place"
    data = b"".join(path.read_bytes() for path in files)
    assert len(data) == len(files) * file_size
    return Log(begin, data[: _records_end(data, begin, file_size)], file_size)


def _records_end(data: bytes, begin: int, file_size: int) -> int:
    at = 0
    while at + 8 <= len(data):
        size, magic = struct.unpack_from(">iI", data, at)
        if magic == _BLANK:
            at = at - at % file_size + file_size
        elif magic in (_MESSAGE, _MESSAGE_V2):
            (place,) = struct.unpack_from(">q", data, at + 28)
            assert place == begin + at, f"the record at {begin + at} says it is at {place}"
            at += size
        else:
            break
    return at


def assert_same_bytes(master: Path, replica: Path, begin: int, end: int, *, file_size: int) -> None:
    """Both logs have the same bytes from ``begin`` (or where the replica begins) to ``end``; brokers may be running."""
    files = sorted(path for path in (replica / "commitlog").iterdir() if path.name.isdigit())
    assert files, f"{replica} has no log"
    at = max(begin, int(files[0].name))
    while at < end:
        name = f"{at - at % file_size:020d}"
        size = min(end, at - at % file_size + file_size) - at
        pieces = []
        for store in (master, replica):
            with (store / "commitlog" / name).open("rb") as file:
                file.seek(at % file_size)
                pieces.append(file.read(size))
        one, other = pieces
        if one != other:
            differing = next(i for i in range(size) if one[i : i + 1] != other[i : i + 1])
            raise AssertionError(f"logs differ at {at + differing}, in the first {end} bytes that both have")
        at += size


def read_units(store: Path) -> Units:
    """Every unit of every queue by its queue offset, without fillers."""
    found: Units = {}
    for folder in store.glob("consumequeue/*/*"):
        units = {}
        for path in sorted(folder.iterdir()):
            data, first = path.read_bytes(), int(path.name) // _UNIT.size
            for number in range(len(data) // _UNIT.size):
                unit = data[number * _UNIT.size : (number + 1) * _UNIT.size]
                _place, size, _code = _UNIT.unpack(unit)
                if size not in (0, _FILLER_SIZE):
                    units[first + number] = unit
        if units:
            found[folder.parent.name, int(folder.name)] = units
    return found


def read_index(store: Path, slots: int) -> list[tuple[int, int]]:
    """(hash of the key, physical offset) of every entry, in the order they were made."""
    return [entry for path in sorted(store.glob("index/*")) for entry in _entries(path.read_bytes(), slots)]


def _entries(data: bytes, slots: int) -> Iterator[tuple[int, int]]:
    *_, count = _INDEX_HEADER.unpack_from(data)
    for number in range(1, count):
        key_hash, place, _seconds, _previous = _ENTRY.unpack_from(
            data, _INDEX_HEADER.size + 4 * slots + number * _ENTRY.size
        )
        yield key_hash, place


def assert_replica(master: Path, replica: Path, *, file_size: int, slots: int, loses_index: bool = False) -> None:
    """The replica has the master's log from its own begin on, and the queues and the index that follow from it.

    ``loses_index``: entries may be missing. RocketMQ removes the index file in use when it starts after a kill, and
    dispatches only what is behind its checkpoint again; some entries it then has twice.
    """
    one, other = read_log(master, file_size), read_log(replica, file_size)
    assert other.data, "the replica has nothing"
    assert one.begin <= other.begin < one.end, f"master {one.begin}-{one.end}, replica {other.begin}-{other.end}"
    assert other.end == one.end, f"the master ends at {one.end}, the replica at {other.end}"
    expected = one.data[other.begin - one.begin :]
    if other.data != expected:
        at = next(i for i, (a, b) in enumerate(zip(other.data, expected, strict=True)) if a != b)
        raise AssertionError(
            f"logs differ at {other.begin + at}: {expected[at : at + 40]!r} {other.data[at : at + 40]!r}"
        )
    units = _from(read_units(master), other.begin)
    mine = _from(read_units(replica), other.begin)
    assert mine.keys() == units.keys(), f"queues of one only: {sorted(mine.keys() ^ units.keys())}, begin {other.begin}"
    for queue, by_offset in units.items():
        assert mine[queue] == by_offset, queue
    wanted = _index_of(other)
    index = {entry for entry in read_index(replica, slots) if entry[1] >= other.begin}
    # 5.5 has entries for tags too; whatever is there must be about a record.
    assert {place for _, place in index} <= {place for place, _ in _records(other)}, "the index names what is no record"
    assert loses_index or index >= wanted, f"index: {len(wanted - index)} of {len(wanted)} entries are missing"


def _records(log: Log) -> Iterator[tuple[int, memoryview]]:
    """Every message record and where it begins."""
    at, data = 0, memoryview(log.data)
    file_size = log.file_size
    while at < len(data):
        size, magic = struct.unpack_from(">iI", data, at)
        if magic == _BLANK:
            at = at - at % file_size + file_size
        else:
            yield log.begin + at, data[at : at + size]
            at += size


def _index_of(log: Log) -> set[tuple[int, int]]:
    """The entries that these records must have: of the unique key and of each key."""
    wanted = set()
    for place, record in _records(log):
        (body_length,) = struct.unpack_from(">i", record, 84)
        at = 88 + body_length
        topic = bytes(record[at + 1 : at + 1 + record[at]]).decode()
        at += 1 + record[at]
        (length,) = struct.unpack_from(">H", record, at)
        text = bytes(record[at + 2 : at + 2 + length]).decode()
        properties = dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair)
        keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
        wanted |= {(_java_hash(f"{topic}#{key}"), place) for key in keys if key}
    return wanted


def _java_hash(text: str) -> int:
    """What the index stores for a key: the absolute value of Java's hash of it."""
    code = 0
    for letter in text:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    code = code - (1 << 32) if code >= 1 << 31 else code
    return 0 if code == -(1 << 31) else abs(code)


def _from(units: Units, physical_offset: int) -> Units:
    found: Units = {}
    for queue, by_offset in units.items():
        kept = {offset: unit for offset, unit in by_offset.items() if _UNIT.unpack(unit)[0] >= physical_offset}
        if kept:
            found[queue] = kept
    return found
