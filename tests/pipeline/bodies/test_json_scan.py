"""The walk of the core over JSON bodies gives what reading them one by one gives, and reads by itself what is plain."""

from __future__ import annotations

import json
from datetime import UTC

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.pipeline.bodies.ddl import schema_of_ddl
from flaremq.pipeline.bodies.json_decoder import JsonDecoder
from flaremq.pipeline.bodies.json_rows import JsonRows
from flaremq.pipeline.bodies.json_scan import JsonScan
from tests.pipeline.bodies.made_json import SCHEMAS, made_bodies
from tests.pipeline.bodies.odd_json import ODD


def told(ddl: str, bodies: list[bytes | None]) -> tuple[list[str], list[str]]:
    """Rows and which do not fit as text, first those of the decoder, then those of reading one by one."""
    schema, column = schema_of_ddl(ddl), pa.array(bodies, pa.binary())
    found: list[list[str]] = []
    for decoded in (JsonDecoder(schema, UTC).decode(column), JsonRows(schema, UTC).decode(column)):
        assert [each.type for each in decoded.columns] == schema.types
        for each in decoded.columns:
            each.validate(full=True)
        columns = [_bare(each).to_pylist() for each in decoded.columns]
        unfit = [reason is not None for reason in decoded.reasons or [None] * len(bodies)]
        found.append([repr(row) for row in zip(bodies, unfit, *columns, strict=True)])
    return found[0], found[1]


def _bare(column: pa.Array) -> pa.Array:
    """Days and microseconds, which go beyond the calendar of Python."""
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


@pytest.mark.parametrize("ddl", [*SCHEMAS, *ODD])
def test_odd_bodies_are_read_as_one_by_one(ddl: str) -> None:
    bodies: list[bytes | None] = [None, *dict.fromkeys(body for bodies in ODD.values() for body in bodies), None]
    ours, singly = told(ddl, bodies)
    assert ours == singly


@given(st.integers(0, 2**32), st.sampled_from(SCHEMAS))
def test_any_bodies_are_read_as_one_by_one(seed: int, ddl: str) -> None:
    ours, singly = told(ddl, list(made_bodies(seed, 40)))
    assert ours == singly


@given(
    st.lists(st.dictionaries(st.sampled_from(["id", "amount", "n", "é", "other"]), st.text() | st.floats()), max_size=5)
)
def test_whatever_python_writes_is_read_as_one_by_one(objects: list[dict[str, str | float]]) -> None:
    bodies: list[bytes | None] = [
        json.dumps(each, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        for each in objects
        for ascii_only in (True, False)
    ]
    ours, singly = told(SCHEMAS[0], bodies)
    assert ours == singly


def test_plain_bodies_are_taken_without_reading_them_one_by_one() -> None:
    body = {
        "id": "o-é\n",
        "amount": 30.25,
        "n": -9223372036854775807,
        "other": [{"x": [1, {}]}, None, True],
        "day": None,
    }
    typed = {"ok": True, "f": 0.1, "price": 12.5, "day": "2024-02-29", "at": "2024-02-29T10:11:12Z", "raw": "aGk="}
    nested = {"o": {"a": 1}, "l": [1, 2], "m": {"p": 1}, "t": 1}
    bodies = [json.dumps(each, indent=indent).encode() for each in (body, typed, nested, {}) for indent in (None, 2)]
    for ddl in SCHEMAS:
        _, odd = JsonScan(schema_of_ddl(ddl), UTC).read(pa.array(bodies, pa.binary()))
        unfit = [number for number in range(2) if " n int" in f" {ddl}" or "smallint" in ddl]
        assert odd.tolist() == unfit, ddl


def test_the_row_of_an_odd_body_is_left_to_others_and_its_neighbours_are_not() -> None:
    bodies = [b'{"a": 1, "s": "x"}', b'{"a": 2, "s": "lost"', b'{"a": 3, "s": "y"}', b'{"s": "lost", "a": "4"}']
    columns, odd = JsonScan(schema_of_ddl("a int, s string"), UTC).read(pa.array(bodies, pa.binary()))
    assert odd.tolist() == [1, 3]
    assert [column.to_pylist() for column in columns] == [[1, None, 3, None], ["x", None, "y", None]]


def test_a_part_of_a_column_is_read_as_the_whole() -> None:
    bodies = [b'{"id": "%d", "n": %d}' % (number, number) for number in range(200)]
    whole = pa.array(bodies, pa.binary())
    decoder = JsonDecoder(schema_of_ddl("id string, n int"), UTC)
    for start, count in ((0, 0), (0, 1), (7, 64), (150, 50), (200, 0)):
        found = decoder.decode(whole.slice(start, count))
        assert found.columns[0].to_pylist() == [str(number) for number in range(start, start + count)]
        assert found.columns[1].to_pylist() == list(range(start, start + count))
    assert decoder.decode(pa.array([], pa.binary())).count == 0


def test_bodies_that_need_much_room_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flaremq.pipeline.bodies.json_decoder._ROOM", 1000)
    bodies = [b'{"id": "%s", "o": {"b": "%d"}, "m": 1}' % (b"x" * (number % 50), number) for number in range(100)]
    ours, singly = told(SCHEMAS[3], [*bodies, b"broken"])
    assert ours == singly
