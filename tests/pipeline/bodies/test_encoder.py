"""Columns as bodies: what is written is read back the same, and by whom the formats belong to."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.bodies.decoder import BodyDecoder
from flaremq.pipeline.bodies.encoding.encoder import BodyEncoder, UnfitRowError
from flaremq.pipeline.bodies.format import body_format
from flaremq.pipeline.sink.options import parse_sink_options
from flaremq.pipeline.sink.rows import check_batch
from flaremq.pipeline.sink.text import RowError
from tests.pipeline.bodies.test_avro_and_protobuf import AVRO, ORDER, descriptors

DDL = (
    "s string, b boolean, i tinyint, l bigint, f float, d double, p decimal(9,2), y binary, day date, at timestamp, "
    "local timestamp_ntz, a array<struct<n:int,at:timestamp>>, m map<string,decimal(4,1)>, t struct<x:string,z:double>"
)
AT = datetime(2026, 11, 19, 10, 0, 0, 1500, UTC)
ROWS: list[dict[str, Any]] = [
    {"s": 'a "b"', "b": True, "i": -5, "l": (1 << 63) - 1, "f": 1.5, "d": 0.1, "p": Decimal("1234567.89"), "y": b"\xff"}
    | {"day": date(2024, 2, 29), "at": AT, "local": AT.replace(tzinfo=None), "a": [{"n": 1, "at": AT}, None]}
    | {"m": [("k", Decimal("0.5")), ("n", None)], "t": {"x": None, "z": -1e300}},
    {"d": math.inf, "f": -math.inf, "a": [], "m": [], "t": {"x": "", "z": None}},
    {"s": "é"},
]


def batch_of(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def round_trip(options: dict[str, str], rows: list[dict[str, Any]]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Rows, and what is read of what they become."""
    decoder = BodyDecoder(body_format(options))
    batch = batch_of(decoder.schema, rows)
    encoder = BodyEncoder(body_format(options), ["queueId"])
    encoder.check(batch.schema)
    whole = batch.append_column("queueId", pa.array([0] * len(rows), pa.int32()))
    encoded = encoder.encoded(whole)
    assert encoded.schema.names == ["queueId", "body"]
    found, reasons = decoder.decode(encoded)
    assert reasons.null_count == len(rows)
    return batch, found


def test_values_of_every_type_come_back_from_json() -> None:
    given, found = round_trip({"bodyFormat": "json", "bodySchema": DDL}, ROWS)
    assert found.to_pylist() == given.to_pylist()


def test_json_is_what_others_read() -> None:
    encoder = BodyEncoder(body_format({"bodyFormat": "json"}), ["topic"])
    batch = pa.RecordBatch.from_pydict({"topic": ["t"], "id": [1], "at": pa.array([AT]), "none": [None]})
    (body,) = encoder.encoded(batch).column("body").to_pylist()
    assert json.loads(body) == {"id": 1, "at": "2026-11-19T10:00:00.001500Z"}


def test_avro_and_protobuf_come_back(tmp_path: Path) -> None:
    order = ORDER | {"marks": list(ORDER["marks"].items())}
    given, found = round_trip({"bodyFormat": "avro", "bodySchema": json.dumps(AVRO)}, [order, order | {"amount": None}])
    assert found.to_pylist() == given.to_pylist()
    path, _ = descriptors(tmp_path)
    options = {"bodyFormat": "protobuf", "bodySchema": path, "bodyMessage": "shop.Order"}
    schema = BodyDecoder(body_format(options)).schema
    row = {field.name: sample(field.type) for field in schema} | {"state": "PAID"}
    given, found = round_trip(options, [{name: row[name] for name in schema.names}, {schema.names[0]: row["id"]}])
    assert found.to_pylist()[0] == given.to_pylist()[0]


def sample(kind: pa.DataType) -> Any:
    """A value that is not the default of its type."""
    if pa.types.is_list(kind):
        return [sample(kind.value_type)] * 2
    if pa.types.is_map(kind):
        return [(sample(kind.key_type), sample(kind.item_type))]
    if pa.types.is_struct(kind):
        return {field.name: sample(field.type) for field in kind}
    if pa.types.is_timestamp(kind):
        return AT
    if pa.types.is_floating(kind):
        return 2.5
    if pa.types.is_integer(kind):
        return -7
    return {pa.string(): "x", pa.binary(): b"\x00\xff"}.get(kind, True)


def test_a_body_that_did_not_fit_is_written_as_it_was() -> None:
    encoder = BodyEncoder(body_format({"bodyFormat": "json", "bodySchema": "id int"}), [])
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, None], pa.int32()), "_corrupt_body": [None, b"no JSON"]})
    assert encoder.encoded(batch).column("body").to_pylist() == [b'{"id":1}', b"no JSON"]


def test_rows_that_are_no_bodies_are_named(tmp_path: Path) -> None:
    schema = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
    encoder = BodyEncoder(body_format({"bodyFormat": "avro", "bodySchema": schema}), [])
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, None], pa.int64())})
    with pytest.raises(UnfitRowError, match="is no body of avro") as raised:
        encoder.encoded(batch)
    assert raised.value.row == 1
    options = {"path": str(tmp_path), "topic": "t", "bodyFormat": "avro", "bodySchema": schema}
    rules = parse_sink_options(options).row_rules
    with pytest.raises(RowError, match="is no body of avro"):
        check_batch(batch, rules)
    assert check_batch(batch.slice(0, 1), rules).bodies.lengths.tolist() == [1]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id": pa.int64()}, "column id is bigint, in bodySchema it is int"),
        ({"ids": pa.int32()}, "column 'ids' is no field of bodySchema; there are id"),
        ({}, "needs columns to make bodies of"),
    ],
)
def test_columns_that_are_no_fields_are_refused(columns: dict[str, pa.DataType], told: str) -> None:
    encoder = BodyEncoder(body_format({"bodyFormat": "json", "bodySchema": "id int"}), ["topic"])
    with pytest.raises(InvalidArgumentError, match=told):
        encoder.check(pa.schema({"topic": pa.string(), **columns}))


def test_a_prefix_is_taken_off() -> None:
    encoder = BodyEncoder(body_format({"bodyFormat": "json", "bodySchema": "topic string", "bodyPrefix": "b_"}), [])
    batch = pa.RecordBatch.from_pydict({"b_topic": ["x"]})
    encoder.check(batch.schema)
    assert encoder.encoded(batch).column("body").to_pylist() == [b'{"topic":"x"}']
