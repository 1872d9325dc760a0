"""Bodies as columns of a table: new fields appear, none breaks, and what does not fit is kept with the reason."""

from __future__ import annotations

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.table import table
from flaremq.pipeline.jobs.table.job import TableResult, TableSettings
from tests.pipeline.tables.lab import TableLab

GOOD = [b'{"id": "a", "amount": 1}', b'{"id": "b", "amount": 2.5}', b'{"id": "c"}']
BAD = [b"no json", b'{"id": "d", "amount": "much"}']


def run(lab: TableLab, ddl: str, **settings: bool) -> TableResult:
    options = lab.options("orders", bodyFormat="json", bodySchema=ddl)
    return table(None, options, lab.target(), TableSettings(**settings))[0]


def test_fields_are_columns_and_the_body_is_left_out(lab: TableLab) -> None:
    lab.put(bodies=GOOD)
    assert run(lab, "id string, amount double").dead_letters == 0
    rows = lab.rows("orders", "id", "amount")
    assert sorted((row["id"], row["amount"] or 0) for row in rows) == [("a", 1), ("b", 2.5), ("c", 0)]
    assert "body" not in lab.open().columns().names


def test_body_may_stay_beside_its_fields(lab: TableLab) -> None:
    lab.put(bodies=GOOD)
    run(lab, "id string", with_body=True)
    assert {row["body"] for row in lab.rows("orders", "body")} == set(GOOD)


def test_bodies_that_do_not_fit_go_to_dead_letters_with_the_reason(lab: TableLab) -> None:
    lab.put(bodies=[*GOOD, *BAD])
    result = run(lab, "id string, amount double")
    assert (result.rows, result.dead_letters, result.covered) == (3, 2, 5)
    letters = lab.rows("orders_dead_letters")
    assert sorted(row["body"] for row in letters) == sorted(BAD)
    assert all(row["reason"] for row in letters)
    lab.put(bodies=[*GOOD, BAD[0]])
    assert run(lab, "id string, amount double").dead_letters == 1
    assert len(lab.rows("orders_dead_letters")) == 3


def test_new_fields_appear_and_old_rows_stay(lab: TableLab) -> None:
    lab.put(bodies=GOOD)
    run(lab, "id string, amount double")
    lab.put(bodies=[b'{"id": "e", "amount": 5, "at": {"city": "Paris"}}'])
    run(lab, "id string, amount double, at struct<city: string>")
    lab.put(bodies=[b'{"id": "f", "at": {"city": "Rome", "zip": 42}}'])
    run(lab, "id string, at struct<city: string, zip: bigint>")
    found = {row["id"]: row["at"] for row in lab.rows("orders", "id", "at")}
    assert found == {
        "a": None,
        "b": None,
        "c": None,
        "e": {"city": "Paris", "zip": None},
        "f": {"city": "Rome", "zip": 42},
    }


def test_field_that_becomes_another_type_is_refused_and_nothing_breaks(lab: TableLab) -> None:
    lab.put(bodies=GOOD)
    run(lab, "id string, amount double")
    lab.put(bodies=GOOD)
    with pytest.raises(InvalidArgumentError, match="amount"):
        run(lab, "id string, amount string")
    assert run(lab, "id string, amount double").rows == 3


def test_narrower_numbers_fit_into_wider_columns(lab: TableLab) -> None:
    lab.put(bodies=GOOD[:1])
    run(lab, "id string, amount bigint")
    lab.put(bodies=GOOD[:1])
    assert run(lab, "id string, amount int").rows == 1
    assert {row["amount"] for row in lab.rows("orders", "amount")} == {1}


def test_dropping_what_does_not_fit_is_refused(lab: TableLab) -> None:
    lab.put(bodies=GOOD)
    options = lab.options("orders", bodyFormat="json", bodySchema="id string", bodyMode="DROPMALFORMED")
    with pytest.raises(InvalidArgumentError, match="drops nothing"):
        table(None, options, lab.target())


def test_properties_are_columns_where_they_are_named(lab: TableLab) -> None:
    lab.put(4)
    table(None, lab.options("orders", propertyColumns="region"), lab.target())
    assert {row["region"] for row in lab.rows("orders", "region")} == {"eu"}
