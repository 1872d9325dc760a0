"""``flaremq.scan``: the same rows without Spark, for whatever reads Arrow."""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import flaremq
from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.message.topics import is_system_topic
from flaremq.pipeline.model.columns import NAMES, SCHEMA
from tests.pipeline.conftest import FIRST_MS, FilledStore
from tests.support.golden import GoldenStore
from tests.support.golden_rows import golden_rows


def scan(store: FilledStore, **arguments: Any) -> list[dict[str, Any]]:
    options = {name: value for name, value in store.options.items() if name != "path"}
    rows: list[dict[str, Any]] = flaremq.scan(store.options["path"], **options, **arguments).read_all().to_pylist()
    return rows


def places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["topic"], row["queueId"], row["queueOffset"]) for row in rows)


def test_every_message_is_there_once_with_every_column(orders_store: FilledStore) -> None:
    rows = scan(orders_store)
    assert list(rows[0]) == list(NAMES)
    assert places(rows) == orders_store.offsets("topic", "queueId", "queueOffset")
    by_place = {(row["topic"], row["queueId"], row["queueOffset"]): row for row in rows}
    for put in orders_store.rows:
        row = by_place[put["topic"], put["queueId"], put["queueOffset"]]
        for name in ("physicalOffset", "tags", "keys", "body", "msgId"):
            assert row[name] == put[name], name
        assert row["storeTimestamp"] == datetime.fromtimestamp(put["storeTimestamp"] / 1000, UTC)
        assert row["brokerName"] == "broker-a"
        assert dict(row["properties"])["region"] == ("eu" if put["at"] % 2 else "us")


def test_every_message_of_a_rocketmq_store_has_the_values_java_read(golden_55: GoldenStore) -> None:
    options = {name: golden_55.options[name] for name in ("maxHashSlotNum", "maxIndexNum")}
    rows = flaremq.scan(golden_55.root, broker_name="g", **options).read_all().to_pylist()
    expected = golden_rows(golden_55, broker="g")
    assert len(expected) > 100
    assert not any(is_system_topic(row["topic"]) for row in rows)
    for row in rows:
        row["body"] = hashlib.sha256(row["body"]).hexdigest()
        row["properties"] = dict(row["properties"])
    assert sorted(rows, key=lambda row: row["physicalOffset"]) == expected


def test_columns_come_in_the_order_asked_for(orders_store: FilledStore) -> None:
    reader = flaremq.scan(orders_store.options["path"], columns=["queueOffset", "topic"], topic="users")
    assert reader.schema.names == ["queueOffset", "topic"]
    assert reader.schema.field("topic").type == SCHEMA.field("topic").type
    assert len(reader.read_all()) == 120


def test_columns_are_known_in_any_case(orders_store: FilledStore) -> None:
    assert list(scan(orders_store, columns="QUEUEID,Topic")[0]) == ["queueId", "topic"]


def test_offsets_times_tags_and_keys_choose(orders_store: FilledStore) -> None:
    wanted = ("topic", "queueId", "queueOffset")
    some = {"users": {"broker-a": {"0": 10, 1: -1}}}
    assert places(scan(orders_store, topic="users", starting_offsets=some)) == [("users", 0, n) for n in range(10, 60)]
    times = {"starting_timestamp": FIRST_MS + 100_000, "ending_timestamp": FIRST_MS + 160_000}
    assert places(scan(orders_store, **times)) == sorted(
        tuple(row[name] for name in wanted) for row in orders_store.rows if 100 <= row["at"] < 160
    )
    as_dates = {name: datetime.fromtimestamp(value / 1000, UTC) for name, value in times.items()}
    assert places(scan(orders_store, **as_dates)) == places(scan(orders_store, **times))
    as_texts = {name: str(value) for name, value in as_dates.items()}
    assert places(scan(orders_store, **as_texts)) == places(scan(orders_store, **times))
    assert places(scan(orders_store, sub_expression="paid")) == orders_store.offsets(*wanted, tags="paid")
    assert places(scan(orders_store, keys=["k-7"])) == orders_store.offsets(*wanted, at=7)
    shared = [tuple(row[name] for name in wanted) for row in orders_store.rows if row["at"] % 50 == 3]
    assert places(scan(orders_store, keys=["shared-3", "k-3", "absent"])) == sorted(shared)
    assert places(scan(orders_store, subscribe_pattern="%RETRY%.*")) == orders_store.offsets(
        *wanted, topic="%RETRY%billing"
    )


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"topic": "nope"}, NotFoundError, "nope"),
        ({"topic": "ordres"}, NotFoundError, "did you mean orders?"),
        ({"columns": "tpoic"}, InvalidArgumentError, "unknown column 'tpoic'"),
        ({"colour": "red"}, InvalidArgumentError, "unknown option colour"),
        ({"starting_offsets": {"users": {"broker-a": {"9": 1}}}}, NotFoundError, "names queue 9"),
        (
            {"ending_offsets": {"users": {"broker-a": {"0": 99}}}},
            UnavailableError,
            "users/broker-a/0 holds offsets 0 to 60",
        ),
        ({"ending_offsets": "earliest"}, InvalidArgumentError, "endingOffsets cannot be earliest"),
        (
            {
                "starting_offsets": {"users": {"broker-a": {"0": 9}}},
                "ending_offsets": {"users": {"broker-a": {"0": 5}}},
            },
            InvalidArgumentError,
            "endingOffsets has 5 for queue users/broker-a/0, which is before 9 of startingOffsets",
        ),
        (
            {"starting_offsets": "latest", "ending_offsets": {"users": {"broker-a": {"0": 5}}}},
            InvalidArgumentError,
            "which is before 60 of startingOffsets",
        ),
        ({"keys": []}, InvalidArgumentError, "keys is empty: leave the option out to read all"),
        ({"topic": ""}, InvalidArgumentError, "topic is empty"),
    ],
)
def test_what_cannot_work_is_an_error_before_a_row_is_read(
    orders_store: FilledStore, arguments: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        scan(orders_store, **arguments)


def test_a_place_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="neither path nor nameServer"):
        flaremq.scan(topic="orders")
    with pytest.raises(NotFoundError, match="does not exist"):
        flaremq.scan(tmp_path / "nowhere")


@pytest.mark.parametrize("taken", [0, 1, 99])
def test_files_are_closed_when_nobody_wants_more(orders_store: FilledStore, taken: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    reader = flaremq.scan(orders_store.options["path"], maxRecordsPerPartition=100)
    assert len(list(itertools.islice(reader, taken))) == min(taken, 6)
    del reader
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_duckdb_reads_it(orders_store: FilledStore) -> None:
    duckdb = pytest.importorskip("duckdb")
    messages = flaremq.scan(orders_store.options["path"], columns="topic,tags")
    with duckdb.connect() as connection:
        connection.register("messages", messages)
        found = connection.sql(
            "select topic, count(*) from messages where tags = 'paid' group by 1 order by 1"
        ).fetchall()
    by_topic = [
        len(orders_store.offsets("at", topic=topic, tags="paid")) for topic in ("%RETRY%billing", "orders", "users")
    ]
    assert found == list(zip(("%RETRY%billing", "orders", "users"), by_topic, strict=True))


def test_polars_reads_it(orders_store: FilledStore) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(flaremq.scan(orders_store.options["path"], columns="topic,body").read_all())
    assert frame.height == 600
    assert frame["body"].bin.size().sum() == sum(len(row["body"]) for row in orders_store.rows)


def test_pandas_reads_it(orders_store: FilledStore) -> None:
    pytest.importorskip("pandas")
    frame = flaremq.scan(
        orders_store.options["path"], columns="queueOffset,storeTimestamp", topic="users"
    ).read_pandas()
    assert len(frame) == 120
    assert str(frame["storeTimestamp"].dtype) == "datetime64[us, UTC]"
