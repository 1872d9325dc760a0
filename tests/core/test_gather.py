"""Copies of the core: what they lay out is what Arrow and the plain properties parser see."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core.arrays import Integers, as_array
from flaremq.core.gather import gather
from flaremq.message.properties import parse_properties
from flaremq.storage.arrow.columns import properties_columns


def integers(*values: int) -> Integers:
    return np.array(values, np.int64)


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=20))
def test_gathered_pieces_make_an_arrow_column(log: bytes, pieces: list[tuple[int, int]]) -> None:
    pieces = [(min(at, len(log)), min(length, len(log) - min(at, len(log)))) for at, length in pieces]
    at, length = (integers(*column) for column in zip(*pieces, strict=True)) if pieces else (integers(), integers())
    out = np.empty(int(length.sum()), np.uint8)
    offsets = np.empty(len(pieces) + 1, np.int32)
    assert gather(as_array(log), at, length, offsets, out) == out.size
    column = pa.Array.from_buffers(pa.binary(), len(pieces), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
    column.validate(full=True)
    assert column.to_pylist() == [log[start : start + size] for start, size in pieces]


@pytest.mark.parametrize(
    ("at", "length", "room", "places"),
    [(-1, 3, 10, 2), (0, 11, 20, 2), (8, 3, 10, 2), (0, -1, 10, 2), (0, 5, 4, 2), (0, 5, 10, 1), (2**62, 5, 10, 2)],
)
def test_a_piece_outside_the_log_or_without_room_is_refused(at: int, length: int, room: int, places: int) -> None:
    log = as_array(b"0123456789")
    out = np.zeros(room, np.uint8)
    assert gather(log, integers(at), integers(length), np.zeros(places, np.int32), out) == -1


texts = st.text("abKEYS\1\2=é", max_size=8)
properties = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\xff", b"\2").decode("utf-8", "replace").encode()),
    st.lists(st.tuples(texts, texts), max_size=6).map(
        lambda pairs: "".join(f"{key}\1{value}\2" for key, value in pairs).encode()
    ),
)


@given(st.lists(properties, max_size=8))
def test_the_map_column_holds_what_the_plain_parser_reads(strings: list[bytes]) -> None:
    log = bytes(8) + b"".join(strings) + b"after"
    lengths = integers(*map(len, strings))
    at = 8 + np.cumsum(lengths) - lengths
    columns = properties_columns(as_array(log), at.astype(np.int64), lengths)
    assert columns is not None
    count = len(columns.key_offsets) - 1
    keys = pa.Array.from_buffers(pa.string(), count, [None, *map(pa.py_buffer, (columns.key_offsets, columns.keys))])
    values = pa.Array.from_buffers(
        pa.string(), count, [None, *map(pa.py_buffer, (columns.value_offsets, columns.values))]
    )
    column = pa.MapArray.from_arrays(pa.array(columns.offsets, pa.int32()), keys, values)
    column.validate(full=True)
    assert [dict(pairs) for pairs in column.to_pylist()] == [parse_properties(data) for data in strings]
    assert [len(pairs) for pairs in column.to_pylist()] == [len(parse_properties(data)) for data in strings]


def test_the_largest_properties_string_is_read_in_full() -> None:
    data = b"".join(b"%c%c%c\1v\2" % (97 + n % 26, 97 + n // 26 % 26, 97 + n // 676) for n in range(5000))
    log = as_array(bytes(8) + data)
    columns = properties_columns(log, integers(8), integers(len(data)))
    assert columns is not None
    assert columns.offsets.tolist() == [0, 5000]
    assert columns.values.tobytes() == b"v" * 5000


def test_a_key_repeated_thousands_of_times_appears_once_with_its_last_value() -> None:
    data = b"a\1b\2" * 8000 + b"a\1c\2"
    columns = properties_columns(as_array(bytes(8) + data), integers(8), integers(len(data)))
    assert columns is not None
    assert (columns.offsets.tolist(), columns.keys.tobytes(), columns.values.tobytes()) == ([0, 1], b"a", b"c")


def test_ranges_outside_the_log_give_empty_maps() -> None:
    columns = properties_columns(as_array(b"a\1b\2" * 5), integers(-1, 19, 2**62, 8), integers(3, 5, 9, 4))
    assert columns is not None
    assert columns.offsets.tolist() == [0, 0, 0, 0, 1]
