"""``flaremq.scan`` with ``bodyFormat``: which columns there are, and what becomes of bodies that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

import flaremq
from flaremq.errors import CorruptionError, FlareMQError, InvalidArgumentError
from tests.pipeline.bodies.conftest import PutBodies

GOOD = [b'{"id": "a", "amount": 1.5, "lines": [{"sku": "x", "n": 2}]}', b'{"id": "b", "amount": 2}']
BAD = [b"no json", b'{"id": "c", "amount": "much"}']
DDL = "id string, amount double, lines array<struct<sku:string,n:int>>"


def rows(path: str, **options: Any) -> list[dict[str, Any]]:
    options = {"bodyFormat": "json", "bodySchema": DDL} | options
    found: list[dict[str, Any]] = flaremq.scan(path, topic="orders", **options).read_all().to_pylist()
    return found


def test_fields_stand_where_the_body_stood(put_bodies: PutBodies) -> None:
    path = put_bodies(GOOD)
    names = flaremq.scan(path, bodyFormat="json", bodySchema=DDL).schema.names
    assert [name for name in ("id", "amount", "lines", "_corrupt_body") if name in names] == names[-4:]
    assert "body" not in names
    assert rows(path, columns="queueOffset,id,lines") == [
        {"queueOffset": 0, "id": "a", "lines": [{"sku": "x", "n": 2}]},
        {"queueOffset": 1, "id": "b", "lines": None},
    ]
    both = rows(path, columns="body,amount")
    assert [(row["body"], row["amount"]) for row in both] == [(GOOD[0], 1.5), (GOOD[1], 2.0)]


def test_bodies_that_do_not_fit_are_kept_dropped_or_an_error(put_bodies: PutBodies) -> None:
    path = put_bodies([*GOOD, *BAD])
    kept = rows(path, columns="id,amount,_corrupt_body,bodyError")
    assert [(row["id"], row["amount"], row["_corrupt_body"]) for row in kept] == [
        ("a", 1.5, None),
        ("b", 2.0, None),
        (None, None, BAD[0]),
        ("c", None, BAD[1]),
    ]
    assert [bool(row["bodyError"]) for row in kept] == [False, False, True, True]
    assert [row["id"] for row in rows(path, columns="id", bodyMode="DROPMALFORMED")] == ["a", "b"]
    with pytest.raises(CorruptionError, match="orders/0, queue offset 2: no JSON"):
        rows(path, columns="id", bodyMode="FAILFAST")


def test_a_count_counts_what_the_mode_keeps(put_bodies: PutBodies) -> None:
    path = put_bodies([*GOOD, *BAD])
    assert len(rows(path, columns="queueId")) == 4
    assert len(rows(path, columns="queueId", bodyMode="DROPMALFORMED")) == 2


def test_properties_are_columns_under_their_own_name_or_another(put_bodies: PutBodies) -> None:
    path = put_bodies(GOOD)
    found = rows(path, columns="traceparent,tenant,id", propertyColumns="traceparent, x-tenant as tenant, gone")
    assert [row["tenant"] for row in found] == ["zeta", "acme"]
    assert found[1]["traceparent"].endswith("1-01")
    names = flaremq.scan(path, topic="orders", propertyColumns="gone").read_all().to_pylist()
    assert [row["gone"] for row in names] == [None, None]


def test_names_of_fields_and_of_columns_do_not_meet(put_bodies: PutBodies) -> None:
    path = put_bodies([b'{"topic": "t", "keys": "k"}'])
    with pytest.raises(InvalidArgumentError, match="set bodyPrefix"):
        rows(path, bodySchema="topic string")
    found = rows(path, bodySchema="topic string, keys string", bodyPrefix="b_", columns="topic,b_topic,b_keys")
    assert found == [{"topic": "orders", "b_topic": "t", "b_keys": "k"}]
    with pytest.raises(InvalidArgumentError, match=r"propertyColumns .*as another_name"):
        rows(path, propertyColumns="tags")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bodyFormat": "jsn"}, "one of raw, json, avro, protobuf"),
        ({"bodySchema": ""}, "needs bodySchema"),
        ({"bodySchema": "id strin"}, r"strin is no type of a body \(there are .*, array, map and struct\)$"),
        ({"bodySchema": "id strin, a int"}, r"struct\) at ', a int'$"),
        ({"bodySchema": "id"}, "ends where a type"),
        ({"bodySchema": "id string, id int"}, "twice"),
        ({"bodyMode": "LAX"}, "bodyMode"),
        ({"bodyTimeZone": "Mars"}, "no time zone"),
        ({"bodyMessage": "shop.Order"}, "bodyMessage is for bodyFormat=protobuf"),
        ({"bodyFormat": "raw"}, "bodySchema is given without bodyFormat"),
        ({"bodyFormat": "avro", "bodySchema": "/nowhere.avsc"}, "cannot be read"),
        ({"bodyFormat": "avro", "bodySchema": '{"type": "string"}'}, "of no record"),
        ({"bodyFormat": "protobuf", "bodySchema": "/nowhere.desc"}, "needs bodyMessage"),
        ({"columns": "idd"}, "did you mean id"),
    ],
)
def test_what_cannot_be_meant_is_refused(put_bodies: PutBodies, options: dict[str, str], told: str) -> None:
    path = put_bodies(GOOD)
    with pytest.raises(FlareMQError, match=told):
        rows(path, **options)
