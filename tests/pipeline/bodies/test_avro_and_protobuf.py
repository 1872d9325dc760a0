"""Bodies of Avro and Protobuf as columns, written by the libraries of either."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import flaremq
from flaremq.errors import InvalidArgumentError
from tests.pipeline.bodies.conftest import PutBodies

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": ["null", "double"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "marks", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}}},
    ],
}  # fmt: skip
ORDER: dict[str, Any] = {
    "id": "a",
    "amount": 1.5,
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 10, tzinfo=UTC),
    "price": Decimal("12.34"),
    "state": "PAID",
    "marks": {"eu": "yes"},
    "lines": [{"sku": "x", "n": 2}],
}


def avro_body(order: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(AVRO))), order)
    return out.getvalue()


def test_fields_of_avro_are_columns(put_bodies: PutBodies) -> None:
    path = put_bodies([avro_body(ORDER), avro_body(ORDER | {"amount": None, "id": "b"}), b"\xff"])
    options: dict[str, Any] = {"bodyFormat": "avro", "bodySchema": json.dumps(AVRO)}
    whole = ",".join([*ORDER, "_corrupt_body"])
    found = flaremq.scan(path, topic="orders", columns=whole, **options).read_all().to_pylist()
    assert found[0] == ORDER | {"marks": [("eu", "yes")], "_corrupt_body": None}
    assert (found[1]["id"], found[1]["amount"], found[2]["id"], found[2]["_corrupt_body"]) == ("b", None, None, b"\xff")
    some = flaremq.scan(path, topic="orders", columns="at,id", **options).read_all().to_pylist()
    assert [row["id"] for row in some] == ["a", "b", None]
    assert some[0] == {"at": ORDER["at"], "id": "a"}


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ({"name": "u", "type": ["string", "int"]}, "has no one type"),
        ({"name": "u", "type": {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}},
         "holds itself"),
    ],
)  # fmt: skip
def test_avro_that_no_column_can_hold_is_refused(put_bodies: PutBodies, field: dict[str, Any], told: str) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [field]})
    with pytest.raises(InvalidArgumentError, match=told):
        flaremq.scan(put_bodies([b"x"]), bodyFormat="avro", bodySchema=schema)


def descriptors(place: Path) -> tuple[str, Any]:
    """A file with a descriptor set, and the class of its message ``shop.Order``."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    line = file.message_type.add(name="Line")
    line.field.add(name="sku", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    line.field.add(name="n", number=2, type=kinds.TYPE_UINT32, label=kinds.LABEL_OPTIONAL)
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    order.field.add(name="amount", number=2, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    order.field.add(name="state", number=3, type=kinds.TYPE_ENUM, type_name=".shop.State", label=kinds.LABEL_OPTIONAL)
    order.field.add(name="lines", number=4, type=kinds.TYPE_MESSAGE, type_name=".shop.Line", label=kinds.LABEL_REPEATED)
    order.field.add(name="raw", number=5, type=kinds.TYPE_BYTES, label=kinds.LABEL_OPTIONAL)
    path = place / "shop.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return str(path), message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_fields_of_protobuf_are_columns(put_bodies: PutBodies, tmp_path: Path) -> None:
    schema, make = descriptors(tmp_path)
    full = make(id="a", amount=1.5, state=1, raw=b"\x00")
    full.lines.add(sku="x", n=4_000_000_000)
    path = put_bodies([full.SerializeToString(), make(id="b").SerializeToString(), b"\xff\xff"])
    options: dict[str, Any] = {"bodyFormat": "protobuf", "bodySchema": schema, "bodyMessage": "shop.Order"}
    columns = "id,amount,state,lines,raw,_corrupt_body"
    found = flaremq.scan(path, topic="orders", columns=columns, **options).read_all().to_pylist()
    assert found[0] == {
        "id": "a",
        "amount": 1.5,
        "state": "PAID",
        "lines": [{"sku": "x", "n": 4_000_000_000 - (1 << 32)}],  # as Spark, which has no unsigned numbers
        "raw": b"\x00",
        "_corrupt_body": None,
    }
    assert (found[1]["id"], found[1]["amount"], found[1]["lines"]) == ("b", None, [])
    assert (found[2]["id"], found[2]["_corrupt_body"]) == (None, b"\xff\xff")
    with pytest.raises(InvalidArgumentError, match=r"no message 'shop\.Odrer'; there are shop.Line, shop.Order"):
        flaremq.scan(path, **(options | {"bodyMessage": "shop.Odrer"}))
