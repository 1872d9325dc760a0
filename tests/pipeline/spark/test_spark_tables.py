"""Tables of a catalog over a store: made by SQL and by the catalog's own calls, read as tables and as streams."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.spark.catalog_tables import reader_options, table_options, with_note
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.pipeline.conftest import ROOT, FilledStore
from tests.pipeline.conftest import SIZES as STORE_SIZES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = "maxHashSlotNum '200', maxIndexNum '800'"
SCHEMA = StructType([StructField("queueOffset", LongType()), StructField("body", BinaryType())])


def test_options_of_a_table_are_told_from_what_else_a_catalog_knows() -> None:
    given = {"provider": "flaremq", "owner": "me", "a": "b", "topic": "orders", "option.topic": "orders"}
    place = {"path": "file:/data/store", "location": "file:/data/store"}
    assert table_options(given | place) == {"topic": "orders", "path": "file:/data/store"}
    assert table_options({"path": "/data/store", "topic": "orders"}) is None


def test_place_that_a_catalog_makes_up_is_none(tmp_path: Path) -> None:
    place = {"provider": "flaremq", "path": f"file:{tmp_path}"}
    assert table_options(place | {"option.nameServer": "h:9876"}) == {"nameServer": "h:9876"}
    assert table_options(place | {"option.archive": "/archive"}) == {"archive": "/archive"}
    (tmp_path / "commitlog").mkdir()
    assert table_options(place | {"option.archive": "/archive"}) == {"archive": "/archive", "path": f"file:{tmp_path}"}


def test_stores_with_names_are_not_below_the_warehouse() -> None:
    given = {"provider": "flaremq", "path": "file:/warehouse/a=/data/one,b=/data/two", "option.archive": "/archive"}
    assert table_options(given) == {"archive": "/archive", "path": "a=/data/one,b=/data/two"}
    day = {"provider": "flaremq", "path": "file:/data/day=7/store"}
    assert table_options(day) == {"path": "file:/data/day=7/store"}


def test_reader_gets_the_noted_options_behind_its_own() -> None:
    noted = StructType.fromJson(json.loads(with_note(SCHEMA, {"path": "/s", "topic": "orders"}).json()))
    assert reader_options({}, noted) == {"path": "/s", "topic": "orders"}
    assert reader_options({"Topic": "users"}, noted) == {"path": "/s", "Topic": "users"}
    assert reader_options({"path": "/t"}, SCHEMA) == {"path": "/t"}
    with pytest.raises(InvalidArgumentError, match="list of columns"):
        reader_options({}, SCHEMA)


@pytest.fixture
def table(spark: SparkSession, orders_store: FilledStore) -> Iterator[str]:
    yield "messages_table"
    spark.sql("DROP TABLE IF EXISTS messages_table")
    assert any((orders_store.root / "commitlog").iterdir()), "a table that is dropped leaves the store alone"


@pytest.mark.spark
def test_table_has_the_options_it_was_made_with(spark: SparkSession, orders_store: FilledStore, table: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} USING flaremq OPTIONS (path '{orders_store.root}', topic 'users', {SIZES}) "
        "TBLPROPERTIES ('made.by' = 'a test')"
    )
    assert spark.table(table).count() == 120
    row = spark.sql(f"SELECT * FROM {table} WHERE keys LIKE 'k-3 %'").first()
    assert row is not None and row["topic"] == "users"
    assert spark.sql(f"SELECT * FROM {table} WITH (topic = 'orders')").count() == 360


@pytest.mark.spark
def test_location_alone_is_enough(spark: SparkSession, orders_store: FilledStore, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} USING flaremq LOCATION '{orders_store.root}'")
    assert spark.table(table).count() == 600


@pytest.mark.spark
def test_table_of_the_catalogs_own_call(spark: SparkSession, orders_store: FilledStore, table: str) -> None:
    path = str(orders_store.root)
    spark.catalog.createTable(table, path=path, source="flaremq", topic="users", columns="queueId,body")
    assert spark.table(table).columns == ["queueId", "body"]
    assert spark.table(table).count() == 120


@pytest.mark.spark
def test_table_is_a_stream_too(spark: SparkSession, orders_store: FilledStore, table: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {table} USING flaremq OPTIONS (path '{orders_store.root}', topic 'users')")
    rows = spark.readStream.option("startingOffsets", "earliest").table(table)
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
    query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 120


@pytest.mark.spark
def test_table_with_columns_of_its_own_says_what_to_do(
    spark: SparkSession, orders_store: FilledStore, table: str
) -> None:
    spark.sql(f"CREATE TABLE {table} (topic string, body binary) USING flaremq LOCATION '{orders_store.root}'")
    with pytest.raises(Exception, match="Make it without one"):
        spark.table(table).count()
    assert spark.sql(f"SELECT * FROM {table} WITH (path = '{orders_store.root}', topic = 'users')").count() == 120


@pytest.mark.spark
def test_option_that_nobody_knows_is_refused_when_the_table_is_made(
    spark: SparkSession, orders_store: FilledStore, table: str
) -> None:
    with pytest.raises(Exception, match="unknown option topik: did you mean topic"):
        spark.sql(f"CREATE TABLE {table} USING flaremq OPTIONS (path '{orders_store.root}', topik 'users')")


def in_a_session_of_its_own(place: Path, statement: str) -> list[dict[str, object]]:
    """The rows of a statement in a Spark that starts for it and is gone afterwards; ``place`` is what lasts."""
    command = [sys.executable, "-m", "tests.pipeline.spark.persistent_table", str(place), statement]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return rows


@pytest.mark.soak
@pytest.mark.spark
def test_a_table_over_archive_and_live_log_outlives_its_spark(
    spark: SparkSession, fresh_store: FilledStore, tmp_path: Path
) -> None:
    archive(spark, fresh_store.options | {"topic": "orders"}, str(tmp_path / "archive"))
    given = f"path '{fresh_store.options['path']}', archive '{tmp_path / 'archive'}', topic 'orders', {SIZES}"
    in_a_session_of_its_own(tmp_path, f"CREATE TABLE lasting USING flaremq OPTIONS ({given})")
    with MessageStore.open(fresh_store.root, StoreOptions.from_properties(STORE_SIZES)) as store:
        store.put(Message("orders", b"later"), queue_id=0)
    query = "SELECT count(*) AS n, max(decode(body, 'utf-8')) AS last FROM lasting"
    assert in_a_session_of_its_own(tmp_path, query) == [{"n": 361, "last": "later"}]
