"""Appending alone: records of batch bodies and of columns against plain code, on garbage, and beside other bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.batch import decode_batch
from flaremq.message.properties import encode_properties
from flaremq.message.record.check import check_record
from flaremq.message.record.codec import PREFIX_V4
from flaremq.message.record.crc import CRC_PROPERTY_SIZE, record_crc
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.log.append import (
    RecordFields,
    append_batch_body,
    append_columns,
    append_records,
    measure_columns,
)
from flaremq.storage.log.log_end import LogEnd
from tests.support.driven_store import batch_body

NOW = 1_700_000_000_000
TOPIC = b"\x06orders"
FIXED = PREFIX_V4.size + len(TOPIC) + 2
CANARY = 0xA5
BASE = 1 << 20
SIZE = 1 << 16
items = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.binary(max_size=80),
        st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"z")),
    ),
    min_size=1,
    max_size=9,
)
texts = (
    st.none()
    | st.text(max_size=12)
    | st.sampled_from(["", "k1", "a b", "__CRC32#", "C32#", "_C", "x\x01", "\x02", "\0"])
)


class Tail(LogEnd):
    """One file of memory, everything behind the end marked."""

    def __init__(self, at: int = 0) -> None:
        super().__init__(ManualClock(NOW))
        self.memory = bytearray([CANARY]) * SIZE
        self.current = MappedFile(LocalFileSystem(), f"/nowhere/{BASE:020d}", SIZE)
        self.current.wrote = at
        self.end_offset = BASE + at
        self.limit = SIZE
        self.write_into(memoryview(self.memory))

    def make_room(self, total: int) -> Any:
        raise StoreIOError("reserve", "/nowhere", OSError(28, "no space"))

    def appended(self, at: int) -> bytes:
        end = self.end_offset - BASE
        assert set(self.memory[:at]) <= {CANARY} and set(self.memory[end:]) <= {CANARY}, "bytes beside were changed"
        return bytes(self.memory[at:end])


def fields(**given: Any) -> RecordFields:
    hosts = (b"\1\2\3\4\0\0\0\5", b"\5\6\7\x08\0\0\0\6")
    return RecordFields(-626843481, TOPIC, 3, given.get("sys_flag", 0), NOW - 5, *hosts)


def append(body: bytes, tail: Tail, offsets: dict[int, int], count_max: int = 100) -> Any:
    return append_batch_body(tail, fields(), offsets, body, SIZE, count_max)


@given(items)
def test_batch_is_written_as_plain_code_would(sent: list[tuple[int, bytes, bytes]]) -> None:
    tail, offsets = Tail(at=17), {3: 40}
    expected = [FIXED + len(content) + len(properties) for _, content, properties in sent]
    assert append(batch_body(*sent), tail, offsets) in ((40, BASE + 17, NOW, expected), None)
    if tail.end_offset == BASE + 17:
        assert any(b"__CR" in text or b"C32#" in text for _, _, text in sent)
        return
    data, at = tail.appended(17), 0
    for number, (flag, content, properties) in enumerate(sent):
        assert check_record(data, at, physical_offset=BASE + 17 + at).ok
        head = PREFIX_V4.unpack_from(data, at)
        assert (head[3], head[4], head[5]) == (3, flag, 40 + number)
        assert data[at + 88 : at + head[0]] == content + TOPIC + len(properties).to_bytes(2, "big") + properties
        at += head[0]
    assert at == len(data) and offsets == {3: 40 + len(sent)}


@given(items, st.data())
def test_cut_batch_is_left_alone_unless_it_is_cut_between_messages(
    sent: list[tuple[int, bytes, bytes]], data: st.DataObject
) -> None:
    ends = [len(batch_body(*sent[:number])) for number in range(len(sent) + 1)]
    end = data.draw(st.integers(0, ends[-1] - 1))
    tail, offsets = Tail(), {3: 40}
    appended = append(batch_body(*sent)[:end], tail, offsets)
    if end not in ends[1:]:
        assert appended is None and tail.appended(0) == b"" and offsets == {3: 40}


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from([b"\0", b"\0" * 16, b"\0\0\0\1", b"\x7f\xff", b"\xff", b"x"])).map(b"".join)
)
def test_garbage_is_taken_only_as_plain_code_decodes_it(body: bytes) -> None:
    tail = Tail()
    appended = append(body, tail, {})
    if appended is not None:
        decoded = list(decode_batch(body))
        assert appended[3] == [FIXED + len(item.body) + len(item.properties) for item in decoded]
        assert not any(0 in bytes(item.properties) for item in decoded)
    else:
        assert tail.appended(0) == b""


@pytest.mark.parametrize("text", [b"K\x01v\0\x02", b"__CRC32#\x01x\x02", b"K\x01C32#\x02"])
def test_properties_that_no_record_may_have_are_left_to_plain_code(text: bytes) -> None:
    assert append(batch_body((0, b"\0body\0", b"K\x01v\x02")), Tail(), {}) is not None
    assert append(batch_body((0, b"body", text)), Tail(), {}) is None


def test_more_messages_than_allowed_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="more than 4"):
        append(batch_body(*[(0, b"", b"")] * 5), Tail(), {}, count_max=4)


def test_records_for_which_there_is_no_space_change_nothing() -> None:
    tail, offsets = Tail(at=SIZE - 60), {3: 1}
    with pytest.raises(StoreIOError):
        append(batch_body((0, b"body", b"")), tail, offsets)
    with pytest.raises(StoreIOError):
        append_records(tail, fields(), offsets, [b"body"], [b""], None)
    assert set(tail.memory) == {CANARY} and offsets == {3: 1} and tail.end_offset == BASE + SIZE - 60


@given(st.lists(st.tuples(st.binary(max_size=20), texts, texts), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_columns_are_written_as_their_encoded_properties_would_be(
    rows: list[tuple[bytes, str | None, str | None]], with_keys: bool, with_tags: bool
) -> None:
    bodies = [row[0] for row in rows]
    keys = [row[1] for row in rows] if with_keys else None
    tags = [row[2] for row in rows] if with_tags else None
    sizes = measure_columns(fields(), bodies, keys, tags, SIZE)
    used = [text for column in (keys, tags) if column for text in column if text]
    odd = [text for text in used if not text.isascii() or {*"\0\1\2"} & {*text} or "__CR" in text or "C32#" in text]
    assert (sizes is None) == bool(odd)
    if sizes is None:
        return
    tail, plain = Tail(), Tail()
    named = [
        {name: text for name, text in (("KEYS", key), ("TAGS", tag)) if text}
        for key, tag in zip(keys or [None] * len(rows), tags or [None] * len(rows), strict=True)
    ]
    append_records(plain, fields(), {}, bodies, [encode_properties(each) for each in named], None)
    assert append_columns(tail, fields(), {}, bodies, keys, tags, sizes) == (0, BASE, NOW, sizes)
    assert tail.appended(0) == plain.appended(0)


def test_record_checksum_is_written_into_the_room_left_for_it() -> None:
    tail = Tail()
    append_records(tail, fields(), {}, [b"body"], [b"K\x01v\x02" + bytes(CRC_PROPERTY_SIZE)], [7], True)
    record = tail.appended(0)
    assert check_record(record, 0, physical_offset=BASE).ok
    assert record[-20:-11] == b"__CRC32#\x01" and int(record[-11:-1][::-1]) == record_crc(record)


def test_transaction_records_without_a_place_in_a_queue_take_no_offset() -> None:
    tail, offsets = Tail(), {3: 9}
    assert append_records(tail, fields(sys_flag=0x4), offsets, [b"half"], [b""], None)[0] == 0
    assert offsets == {3: 9}
