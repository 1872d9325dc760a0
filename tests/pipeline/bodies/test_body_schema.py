"""The schema of bodies, found by looking at them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flaremq
from flaremq.errors import NotFoundError
from flaremq.pipeline.bodies.ddl import ddl_of_schema
from flaremq.pipeline.bodies.inferred import infer_schema
from flaremq.pipeline.jobs.body_schema import body_schema
from tests.pipeline.bodies.conftest import PutBodies


@pytest.mark.parametrize(
    ("bodies", "ddl"),
    [
        (['{"id": 1, "name": "x", "ok": true}', '{"id": 2.5}'], "id double, name string, ok boolean"),
        (['{"a": {"b": 1}}', '{"a": {"c": ["x"]}}'], "a struct<b:bigint,c:array<string>>"),
        (['{"a": [1, 2.0]}', '{"a": [], "b": null}'], "a array<double>, b string"),
        (['{"a": 1}', '{"a": "one"}', '{"a": {"b": 1}}'], "a string"),
        (['{"a": {}}', '{"a b": 9223372036854775808}'], "a string, `a b` double"),
        ([json.dumps({"a": {f"user-{at}": at for at in range(300)}})], "a map<string,bigint>"),
        (["[1]", "x", '"text"', '{"a": 1}'], "a bigint"),
    ],
)
def test_types_widen_until_all_bodies_fit(bodies: list[str], ddl: str) -> None:
    found = infer_schema([body.encode() for body in bodies])
    assert ddl_of_schema(found.schema) == ddl


def test_bodies_that_are_no_objects_are_counted() -> None:
    found = infer_schema([b"[1]", b"\xff", None, b'{"a": 1}'])
    assert (found.bodies, found.unfit) == (4, 3)


def test_schema_of_a_topic_reads_its_bodies(put_bodies: PutBodies) -> None:
    values = [{"id": at, "place": {"city": "x", "at": [at, 0.5]}, "old" if at < 50 else "new": "y"} for at in range(99)]
    path = put_bodies([json.dumps(value).encode() for value in values])
    found = body_schema({"path": path, "topic": "orders"}, sample=10)
    assert (found.bodies, found.unfit, found.taken_names) == (10, 0, [])
    rows = flaremq.scan(path, columns="id,place,old,new", bodyFormat="json", bodySchema=found.ddl, bodyMode="FAILFAST")
    assert [{name: value for name, value in row.items() if value} for row in rows.read_all().to_pylist()] == [
        {name: item for name, item in value.items() if item} for value in values
    ]


def test_fields_with_names_of_columns_are_told(put_bodies: PutBodies) -> None:
    path = put_bodies([b'{"id": 1, "Topic": "x"}', b"no JSON"])
    found = body_schema({"path": path})
    assert (found.taken_names, found.unfit) == (["Topic"], 1)


def test_schemas_that_are_given_are_shown_as_columns(tmp_path: Path, put_bodies: PutBodies) -> None:
    avro = tmp_path / "order.avsc"
    avro.write_text('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
    path = put_bodies([b"x"])
    assert body_schema({"path": path, "bodyFormat": "avro", "bodySchema": str(avro)}).ddl == "id bigint"
    with pytest.raises(NotFoundError, match="none of 1 bodies is an object of JSON"):
        body_schema({"path": path})
