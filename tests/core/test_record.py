"""Records parsed in bulk against Java's reading of golden logs, against the plain codec, and against garbage."""

from __future__ import annotations

import ctypes
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core.arrays import Bytes, as_array
from flaremq.core.record import nonzero_end, parse_at, resync
from flaremq.core.record import walk as walk_kernel
from flaremq.core.table import (
    BLANK,
    BODY_AT,
    BODY_CRC,
    BODY_LENGTH,
    BORN_TIMESTAMP,
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    DELAY_LEVEL,
    EMPTY,
    END,
    FLAG,
    FULL,
    HEADERS_ONLY,
    IMPLAUSIBLE,
    INVALID_BODY_CRC,
    INVALID_MAGIC,
    INVALID_OFFSET,
    INVALID_RECORD_CRC,
    INVALID_SIZE,
    KEYS_AT,
    KEYS_LENGTH,
    MARK_BAD_TEXT,
    MARK_INNER_BATCH,
    MARK_MULTI_DISPATCH,
    MARK_SCHEDULE,
    MARKS,
    OK,
    PHYSICAL_OFFSET,
    PREPARED_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    RECONSUME_TIMES,
    REQUIRE_RECORD_CRC,
    RESULT,
    SIZE,
    STORE_TIMESTAMP,
    STRICT,
    SYS_FLAG,
    TAGS_AT,
    TAGS_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
    UNIQUE_KEY_AT,
    UNIQUE_KEY_LENGTH,
    VERSION,
    RecordTable,
)
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import check_record
from flaremq.message.record.crc import body_crc
from tests.message.records import flip, make_record
from tests.support.golden import golden_names, open_golden

EVERYTHING = CHECK_BODY_CRC | CHECK_RECORD_CRC | STRICT
INVALID = range(INVALID_MAGIC, IMPLAUSIBLE + 1)
PAGE = mmap.PAGESIZE


def blank(size: int) -> bytes:
    return struct.pack(">ii", size, -875286124) + bytes(size - 8)


def log_of(*bodies: bytes, base: int = 0, **fields: Any) -> bytes:
    """Consecutive records, one a body."""
    log = b""
    for body in bodies:
        log += make_record(body=body, physical_offset=base + len(log), **fields)
    return log


def fenced(data: bytes, *, at_end: bool) -> Bytes:
    """The data in memory of its own, with an unreadable page right after (or right before) it."""
    pages = -(-len(data) // PAGE)
    region = mmap.mmap(-1, (pages + 2) * PAGE)
    start = PAGE + (pages * PAGE - len(data) if at_end else 0)
    region[start : start + len(data)] = data
    array = np.frombuffer(region, np.uint8)
    libc = ctypes.CDLL(None)
    for page in (0, pages + 1):
        address = ctypes.c_void_p(array.ctypes.data + page * PAGE)
        assert libc.mprotect(address, ctypes.c_size_t(PAGE), 0) == 0
    return array[start : start + len(data)]


def walk(
    log: bytes | Bytes, *, base: int = 0, flags: int = EVERYTHING, start: int = 0, end: int | None = None
) -> tuple[int, int, int, RecordTable]:
    array = as_array(log) if isinstance(log, bytes) else log
    table = RecordTable(64)
    return (*walk_kernel(array, start, array.size if end is None else end, base, flags, table.columns), table)


def text(log: Bytes, table: RecordTable, row: int, at: int, length: int) -> str | None:
    piece = log[table[at][row] : table[at][row] + table[length][row]]
    return piece.tobytes().decode() or None


COLUMNS = {
    "physicalOffset": PHYSICAL_OFFSET,
    "size": SIZE,
    "queueId": QUEUE_ID,
    "queueOffset": QUEUE_OFFSET,
    "sysFlag": SYS_FLAG,
    "flag": FLAG,
    "bodyCRC": BODY_CRC,
    "bornTimestamp": BORN_TIMESTAMP,
    "storeTimestamp": STORE_TIMESTAMP,
    "reconsumeTimes": RECONSUME_TIMES,
    "preparedTransactionOffset": PREPARED_OFFSET,
    "bodyLength": BODY_LENGTH,
}


@pytest.mark.parametrize("name", golden_names())
def test_walking_a_golden_log_finds_every_message_java_reads(name: str, tmp_path: Path) -> None:
    store = open_golden(name, tmp_path)
    expected = {message["physicalOffset"]: message for message in store.messages}
    blanks = []
    table = RecordTable(1024)
    for base, path in store.log_files().items():
        log = np.fromfile(path, np.uint8)
        rows, at, stop = walk_kernel(log, 0, log.size, base, EVERYTHING, table.columns)
        assert stop in (BLANK, EMPTY)
        if stop == BLANK:
            blanks.append({"physicalOffset": base + at, "size": log.size - at})
        for row in range(rows):
            message = expected.pop(int(table[PHYSICAL_OFFSET][row]))
            found = {field: int(table[column][row]) for field, column in COLUMNS.items()}
            assert found == {field: message[field] for field in COLUMNS}
            assert table[VERSION][row] == (1 if message["magic"] == "daa320a7" else 2)
            assert text(log, table, row, TOPIC_AT, TOPIC_LENGTH) == message["topic"]
            assert text(log, table, row, TAGS_AT, TAGS_LENGTH) == message.get("tags")
            assert text(log, table, row, KEYS_AT, KEYS_LENGTH) == message.get("keys")
            unique = text(log, table, row, UNIQUE_KEY_AT, UNIQUE_KEY_LENGTH)
            assert unique == message["properties"].get("UNIQ_KEY")
            assert table[DELAY_LEVEL][row] == int(message["properties"].get("DELAY", -1))
    assert expected == {}
    assert blanks == store.manifest["blanks"]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2"), min_size=1, max_size=40)
names = st.one_of(
    texts,
    st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "DELAY", "INNER_MULTI_DISPATCH", "TAGSX", "XTAGS", "UNIQ_KEYS"]),
)


@given(
    body=st.binary(max_size=200),
    pairs=st.lists(st.tuples(names, st.one_of(texts, st.just(""), st.integers(-3, 20).map(str))), max_size=8),
    final=st.booleans(),
    sys_flag=st.sampled_from([0, 0x8, 0x80]),
    version=st.sampled_from([1, 2]),
)
def test_a_row_says_what_the_plain_reader_says(
    body: bytes, pairs: list[tuple[str, str]], final: bool, sys_flag: int, version: int
) -> None:
    topic = b"SCHEDULE_TOPIC_XXXX" if len(pairs) % 2 else b"Topic-%|_" * (20 if version == 2 else 1)
    properties = b"\2".join(f"{key}\1{value}".encode() for key, value in pairs)
    properties += b"\2" if final and pairs else b""
    record = make_record(body=body, properties=properties, topic=topic, sys_flag=sys_flag)
    log = as_array(record)
    rows, at, stop, table = walk(record, base=1234, flags=CHECK_BODY_CRC)
    assert (rows, at, stop) == (1, len(record), END)
    plain = MessageExt(record)
    assert text(log, table, 0, TAGS_AT, TAGS_LENGTH) == plain.properties.get("TAGS")
    assert text(log, table, 0, KEYS_AT, KEYS_LENGTH) == plain.properties.get("KEYS")
    assert text(log, table, 0, UNIQUE_KEY_AT, UNIQUE_KEY_LENGTH) == plain.properties.get("UNIQ_KEY")
    marks = int(table[MARKS][0])
    assert bool(marks & MARK_MULTI_DISPATCH) == ("INNER_MULTI_DISPATCH" in plain.properties)
    assert bool(marks & MARK_SCHEDULE) == (topic == b"SCHEDULE_TOPIC_XXXX")
    assert bool(marks & MARK_INNER_BATCH) == bool(sys_flag & 0x80)
    assert not marks & MARK_BAD_TEXT
    assert log[table[BODY_AT][0] :][: table[BODY_LENGTH][0]].tobytes() == body


@pytest.mark.parametrize(
    ("value", "level"),
    [("3", 3), ("+3", 3), ("-3", -1), ("007", 7), ("-0", 0), ("2147483647", 2147483647)]
    + [(bad, -2) for bad in ("x", "3 ", "+", "-", "2147483648", "9" * 30, "٣")],
)
def test_the_delay_level_is_read_as_java_parses_an_int(value: str, level: int) -> None:
    record = make_record(properties=f"DELAY\1{value}\2".encode())
    assert walk(record, base=1234)[3][DELAY_LEVEL][0] == level


@given(
    edits=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    crc=st.booleans(),
    strict=st.booleans(),
    cut=st.integers(0, 60),
)
def test_kernel_and_codec_accept_the_same_records(
    edits: list[tuple[int, int]], crc: bool, strict: bool, cut: int
) -> None:
    data = bytearray(make_record(properties=b"TAGS\1Tag\2", append_crc=crc) + bytes(30))
    for place, value in edits:
        data[place % len(data)] = value
    log = bytes(data[: max(len(data) - cut, 0)])
    verdict = check_record(log, physical_offset=1234, strict=strict)
    flags = CHECK_BODY_CRC | CHECK_RECORD_CRC | (STRICT if strict else 0)
    rows, _, stop, table = walk(log, base=1234, flags=flags)
    assert (rows > 0) == verdict.ok, stop
    if verdict.ok:
        assert table[SIZE][0] == verdict.size


def test_a_flipped_bit_anywhere_is_noticed_when_the_record_checksum_is_required() -> None:
    record = make_record(append_crc=True)
    for at in range(len(record)):
        assert walk(flip(record, at, at % 8), base=1234, flags=REQUIRE_RECORD_CRC)[0] == 0, at


def test_a_record_without_checksum_property_passes_unless_it_is_required() -> None:
    record = make_record()
    assert walk(record, base=1234, flags=CHECK_RECORD_CRC)[2] == END
    assert walk(record, base=1234, flags=REQUIRE_RECORD_CRC)[2] == INVALID_RECORD_CRC
    assert walk(make_record(append_crc=True), base=1234, flags=REQUIRE_RECORD_CRC)[2] == END


@pytest.mark.parametrize(
    ("change", "stop"),
    [
        ({}, END),
        ({"physical_offset": 1235}, INVALID_OFFSET),
        ({"store_timestamp": 0}, IMPLAUSIBLE),
        ({"queue_id": -1}, IMPLAUSIBLE),
        ({"queue_offset": -1}, IMPLAUSIBLE),
        ({"topic": b"Topic!"}, IMPLAUSIBLE),
        ({"topic": "Töpic".encode()}, IMPLAUSIBLE),
        ({"topic": b""}, IMPLAUSIBLE),
        ({"born_host": b"\1\2\3\4\0\1\0\0"}, IMPLAUSIBLE),
        ({"store_host": b"\1\2\3\4\xff\xff\xff\xff"}, IMPLAUSIBLE),
        ({"properties": b"TAGS\2"}, END),
        ({"properties": b"\1value\2"}, END),
        ({"properties": b"a\1b\2\2c\1d\2"}, END),
        ({"properties": b"a\1b\0\2"}, IMPLAUSIBLE),
        ({"properties": b"a\1\xff\2"}, END),
        ({"properties": b"a\1b\2c\1"}, END),
    ],
)
def test_strict_walk_refuses_what_no_broker_writes(change: dict[str, Any], stop: int) -> None:
    assert walk(make_record(**change), base=1234)[2] == stop


def test_walk_stops_at_the_blank_and_at_unwritten_bytes() -> None:
    log = log_of(b"one", b"two")
    assert walk(log + blank(100))[:3] == (2, len(log), BLANK)
    assert walk(log + bytes(100))[:3] == (2, len(log), EMPTY)
    assert walk(log)[:3] == (2, len(log), END)
    assert walk(log + blank(100)[:50])[:3] == (2, len(log), INVALID_SIZE)
    assert walk(log + b"\0\0\0")[:3] == (2, len(log), INVALID_SIZE)


def test_walk_reads_nothing_from_the_given_end_on() -> None:
    log = log_of(b"one", b"two")
    first = len(log_of(b"one"))
    assert walk(log, end=first)[:3] == (1, first, END)
    assert walk(log, end=first + 20)[:3] == (1, first, INVALID_SIZE)
    assert walk(log, start=first)[:3] == (1, len(log), END)
    assert walk(log, start=len(log) + 5)[:3] == (0, len(log) + 5, END)
    assert walk(log, start=-1)[2] == INVALID_SIZE


def test_a_full_table_is_continued_from_the_returned_offset() -> None:
    log = as_array(log_of(*(b"body %d" % number for number in range(50))))
    table = RecordTable(8)
    at, total, stop = 0, 0, FULL
    while stop == FULL:
        rows, at, stop = walk_kernel(log, at, log.size, 0, EVERYTHING, table.columns)
        assert rows <= table.capacity
        total += rows
    assert (total, at, stop) == (50, log.size, END)


def test_headers_only_leaves_properties_alone_but_checks_the_rest() -> None:
    record = make_record(properties=b"a\1\xff\2")
    _, _, stop, table = walk(record, base=1234, flags=HEADERS_ONLY | CHECK_BODY_CRC)
    assert stop == END
    assert table[MARKS][0] == 0
    assert walk(flip(record, 90), base=1234, flags=HEADERS_ONLY | CHECK_BODY_CRC)[2] == INVALID_BODY_CRC


def test_text_that_is_not_utf8_is_marked_for_the_plain_path() -> None:
    for change in ({"properties": b"KEYS\1\xc3(\2"}, {"topic": b"T\x80pic"}):
        table = walk(make_record(**change), base=1234, flags=0)[3]
        assert table[MARKS][0] & MARK_BAD_TEXT


def test_parse_at_gives_a_verdict_for_every_place_asked() -> None:
    log = log_of(b"one", b"two", b"three")
    second = len(log_of(b"one"))
    array = as_array(flip(log, second + 90))
    table = RecordTable(8)
    table.columns[:] = 77
    places = np.array([0, second, second + 1, -5, 10**12, len(log) - 3, 0], np.int64)
    assert parse_at(array, places, 0, EVERYTHING, table.columns) == len(places)
    verdicts = table[RESULT][: len(places)].tolist()
    assert verdicts[0] == verdicts[6] == OK
    assert verdicts[1] == INVALID_BODY_CRC
    assert all(verdict in INVALID for verdict in verdicts[1:6])
    assert table[BODY_LENGTH][:7].tolist() == [3, 0, 0, 0, 0, 0, 3]


def test_parse_at_stops_where_the_table_ends() -> None:
    log = as_array(log_of(b"one"))
    table = RecordTable(1)
    assert parse_at(log, np.zeros(100, np.int64), 0, 0, table.columns) == table.capacity


def test_resync_finds_the_next_whole_record_after_damage() -> None:
    first, second, third = (make_record(body=body, physical_offset=0) for body in (b"a" * 50, b"b" * 50, b"c" * 50))
    base = 10_000
    log = log_of(b"a" * 50, b"b" * 50, b"c" * 50, base=base)
    assert resync(as_array(log), 0, len(log), base) == 0
    assert resync(as_array(log), 1, len(log), base) == len(first)
    damaged = as_array(flip(log, len(first) + 100))
    assert resync(damaged, 1, len(log), base) == len(first) + len(second)
    assert resync(damaged, 1, len(log) - 1, base) == -1, "the last record must be whole"
    assert resync(as_array(log), 0, len(log), base + 1) == -1, "stale bytes of another place are no record"
    assert len(third) == len(first)


@given(data=st.binary(max_size=400), places=st.lists(st.integers(0, 400), max_size=6))
def test_resync_never_invents_a_record(data: bytes, places: list[int]) -> None:
    garbage = bytearray(data)
    for place in places:
        garbage[place : place + 4] = b"\xda\xa3\x20\xa7"
    record = make_record(physical_offset=len(garbage) + 7)
    log = as_array(bytes(garbage) + record + bytes(3))
    assert resync(log, 0, log.size, 7) == len(garbage)
    assert resync(log, len(garbage) + 1, log.size, 7) == -1


@given(
    data=st.binary(min_size=1, max_size=300),
    pieces=st.lists(
        st.tuples(st.integers(0, 300), st.sampled_from([b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\0\0\0\x5b"])),
        max_size=6,
    ),
    at_end=st.booleans(),
)
def test_garbage_is_refused_without_reading_outside_it(
    data: bytes, pieces: list[tuple[int, bytes]], at_end: bool
) -> None:
    garbage = bytearray(data)
    for place, piece in pieces:
        garbage[place : place + len(piece)] = piece
    log = fenced(bytes(garbage), at_end=at_end)
    for flags in (0, EVERYTHING, HEADERS_ONLY):
        rows, at, stop, table = walk(log, flags=flags)
        assert 0 <= at <= log.size
        assert stop == END or rows == 0
        assert parse_at(log, np.arange(log.size), 0, flags, table.columns) == min(log.size, table.capacity)
    assert resync(log, 0, log.size, 0) <= log.size


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("properties", [b"", b"a", b"KEYS\1x", b"TAGS\1Tag", b"UNIQ_KEY\1u", b"INNER_MULTI_DISPATCH\1"])
def test_good_records_are_read_up_to_their_last_byte_and_no_further(properties: bytes, at_end: bool) -> None:
    log = fenced(make_record(properties=properties, topic=b"T"), at_end=at_end)
    rows, at, stop, _ = walk(log, base=1234, flags=CHECK_BODY_CRC | CHECK_RECORD_CRC)
    assert (rows, at, stop) == (1, log.size, END)


def test_a_read_only_mapping_is_walked_in_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log_of(b"one") + blank(80))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        log = as_array(memoryview(mapping))
        assert not log.flags.writeable
        assert walk(log)[2] == BLANK
        del log


def test_body_checksum_in_the_table_is_the_stored_one() -> None:
    assert walk(make_record(body=b"hello"), base=1234)[3][BODY_CRC][0] == body_crc(b"hello")


@pytest.mark.parametrize(
    ("content", "start", "end", "found"),
    [
        (b"", 0, 0, 0),
        (b"\0\0\0", 0, 3, 0),
        (b"\0a\0\0", 0, 4, 2),
        (b"\0a\0\0", 2, 4, 2),
        (b"\0a\0b", 0, 3, 2),
        (b"a", 0, 99, 1),
        (b"a", 5, 9, 5),
        (b"\0" * 70_000 + b"a" + bytes(200_000), 0, 270_001, 70_001),
        (bytes(300_000), 17, 300_000, 17),
    ],
)
def test_the_last_byte_that_is_not_zero_is_found_from_the_back(
    content: bytes, start: int, end: int, found: int
) -> None:
    assert nonzero_end(content, start, end) == found
