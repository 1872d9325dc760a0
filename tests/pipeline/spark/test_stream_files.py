"""``parquetPath``: the tasks of a stream write Parquet themselves, each message once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from flaremq import scan
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.spark.datasource import FlareMQDataSource
from flaremq.pipeline.spark.stream_reader import StreamReader, make_stream_reader
from tests.pipeline.conftest import FilledStore, fill_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "topic,queueId,queueOffset,keys,body"


def reader_of(store: FilledStore, out: Path, **options: str) -> StreamReader:
    given = {**store.options, "columns": COLUMNS, "startingOffsets": "earliest", "parquetPath": str(out), **options}
    return make_stream_reader(parse_options(given), schema_of(COLUMNS.split(",")))


def run_batch(reader: StreamReader) -> list[dict[str, Any]]:
    """One batch from the start to the end; its rows."""
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start))
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def messages(out: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in COLUMNS.split(",")) for row in pq.read_table(out).to_pylist())


def test_every_message_is_in_a_file_and_every_file_is_a_row(orders_store: FilledStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = run_batch(reader_of(orders_store, out, minPartitions="3"))
    assert len(rows) == 3
    assert sum(row["rows"] for row in rows) == 600
    assert {row["path"]: row["bytes"] for row in rows} == {str(path): path.stat().st_size for path in out.iterdir()}
    assert messages(out) == orders_store.offsets(*COLUMNS.split(","))


def test_a_batch_that_runs_again_writes_the_same_files(orders_store: FilledStore, tmp_path: Path) -> None:
    first = run_batch(reader_of(orders_store, tmp_path / "out", minPartitions="3"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert run_batch(reader_of(orders_store, tmp_path / "out", minPartitions="3")) == first
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_task_without_messages_leaves_no_file(orders_store: FilledStore, tmp_path: Path) -> None:
    assert run_batch(reader_of(orders_store, tmp_path / "out", subExpression="NoSuchTag")) == []
    assert not (tmp_path / "out").exists()


def test_a_task_that_fails_leaves_no_file(
    orders_store: FilledStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(StoreIOError, match="No space"):
        run_batch(reader_of(orders_store, tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("place", ["s3://bucket/out", "file:///tmp/out"])
def test_only_a_directory_is_taken(orders_store: FilledStore, place: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no directory"):
        parse_options({**orders_store.options, "parquetPath": place})


def test_batches_refuse_it(orders_store: FilledStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="is for streams"):
        scan(**orders_store.options, parquetPath=str(tmp_path / "out"))  # type: ignore[arg-type]


def test_the_schema_of_such_a_stream_is_that_of_files(orders_store: FilledStore, tmp_path: Path) -> None:
    source = FlareMQDataSource({**orders_store.options, "parquetPath": str(tmp_path)})
    assert source.schema() == "path string, rows bigint, bytes bigint"


def test_available_now_goes_on_where_it_ended(spark: SparkSession, fresh_store: FilledStore, tmp_path: Path) -> None:
    out = tmp_path / "messages"

    def run() -> int:
        options = {**fresh_store.options, "columns": COLUMNS, "startingOffsets": "earliest", "parquetPath": str(out)}
        frame = spark.readStream.format("flaremq").options(**options).load()
        writer = frame.writeStream.format("json").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "files"))
        assert query.awaitTermination(120)
        lines = [line for path in (tmp_path / "files").glob("*.json") for line in path.read_text().splitlines()]
        told = [json.loads(line) for line in lines]
        assert sorted(file["path"] for file in told) == sorted(map(str, out.iterdir()))
        return sum(file["rows"] for file in told)

    assert run() == 600
    more = fill_store(fresh_store.root, count=100, first=600)
    assert run() == 700
    assert run() == 700
    expected = fresh_store.offsets(*COLUMNS.split(",")) + more.offsets(*COLUMNS.split(","))
    assert messages(out) == sorted(expected)
