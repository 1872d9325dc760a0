"""One source, two ways to run it: the compiled core and the interpreted one see the same in every log: whole, damaged,
random. (Where the core is not compiled there is one way, and nothing to compare.)"""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core import record, text
from flaremq.core.table import (
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    HEADERS_ONLY,
    REQUIRE_RECORD_CRC,
    STRICT,
    RecordTable,
)
from tests.support.forgery import forged_record
from tests.support.interpreted_core import interpreted, is_compiled

pytestmark = pytest.mark.skipif(not is_compiled(record), reason="the core is not compiled here")
plain = interpreted("record")
plain_text = interpreted("text")

BASE = 1 << 30
FLAGS = [CHECK_BODY_CRC, CHECK_RECORD_CRC, REQUIRE_RECORD_CRC, STRICT, HEADERS_ONLY]

words = st.one_of(st.text("abKEYS 9-=é中\U0001f600\0", min_size=1, max_size=12), st.integers(-9, 2**33).map(str))
property_names = st.sampled_from(["KEYS", "TAGS", "DELAY", "UNIQ_KEY", "INNER_MULTI_DISPATCH", "__CRC32#", "other"])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Some records one after the other, and what may come behind them."""
    log = b""
    for _ in range(draw(st.integers(0, 5))):
        log += forged_record(
            BASE + len(log),
            topic=draw(st.sampled_from(["orders", "SCHEDULE_TOPIC_XXXX", "é", "t" * 100])),
            queue_id=draw(st.integers(0, 9)),
            queue_offset=draw(st.integers(0, 2**40)),
            body=draw(st.binary(max_size=300)),
            sys_flag=draw(st.sampled_from([0, 1, 4, 16, 32, 48])),
            **draw(st.dictionaries(property_names, words, max_size=4)),
        )
    return log + draw(st.sampled_from([b"", bytes(40), b"\0\0\0\x28\xcb\xd4\x31\x94" + bytes(32)]))


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    log = bytearray(draw(logs()))
    for at in draw(st.lists(st.integers(0, max(len(log) - 1, 0)), max_size=6)) if log else []:
        log[at] = draw(st.integers(0, 255))
    if log and draw(st.booleans()):  # a length field, which random bytes seldom make large
        at = draw(st.integers(0, len(log) - 1))
        log[at : at + 4] = draw(st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", bytes(4)]))
    return bytes(log[: draw(st.integers(0, len(log)))])


any_log = st.one_of(logs(), damaged_logs(), st.binary(max_size=400))
any_flags = st.lists(st.sampled_from(FLAGS), max_size=5).map(lambda chosen: sum(set(chosen)))


@given(any_log, any_flags, st.integers(-5, 50), st.integers(-5, 50), st.integers(0, 3))
def test_a_walk_finds_the_same_records(log: bytes, flags: int, start: int, short: int, capacity: int) -> None:
    tables = RecordTable(capacity), RecordTable(capacity)
    seen = record.walk(log, start, len(log) - short, BASE, flags, tables[0].cells)
    assert seen == plain.walk(log, start, len(log) - short, BASE, flags, tables[1].cells)
    assert tables[0].cells == tables[1].cells


@given(any_log, any_flags, st.lists(st.integers(-3, 500), max_size=6))
def test_records_at_given_places_are_the_same(log: bytes, flags: int, places: list[int]) -> None:
    offsets = array("q", [*places, 0, -(2**63), 2**63 - 1])
    tables = RecordTable(9), RecordTable(9)
    rows = record.parse_at(log, offsets, BASE, flags, tables[0].cells)
    assert rows == plain.parse_at(log, offsets, BASE, flags, tables[1].cells)
    assert tables[0].cells == tables[1].cells


@given(any_log, st.integers(-5, 400), st.integers(-5, 50))
def test_the_next_candidate_behind_damage_is_the_same(log: bytes, start: int, short: int) -> None:
    found = record.find_candidate(log, start, len(log) - short, BASE)
    assert found == plain.find_candidate(log, start, len(log) - short, BASE)


@given(st.binary(max_size=30), st.lists(st.binary(max_size=40), max_size=5))
def test_hashes_of_keys_are_the_same(topic: bytes, keys: list[bytes]) -> None:
    offsets = array("q", [0])
    for key in keys:
        offsets.append(offsets[-1] + len(key))
    out = [array("q", bytes(8 * len(keys))) for _ in range(2)]
    done = text.key_hashes(topic, b"".join(keys), offsets, out[0])
    assert done == plain_text.key_hashes(topic, b"".join(keys), offsets, out[1])
    assert out[0] == out[1]
