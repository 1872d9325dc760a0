"""Copies of the core: what they lay out is what Arrow sees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core.arrays import Integers, as_array
from flaremq.core.gather import gather


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
