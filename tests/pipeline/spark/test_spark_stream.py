"""``format("flaremq")`` as a stream: checkpoints, limits, and the progress of a group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flaremq import Message, sync
from flaremq.testing import ephemeral_broker
from tests.pipeline.conftest import FilledStore, fill_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

COLUMNS = "topic,queueId,queueOffset,body"


def has_admission_control(spark: SparkSession) -> bool:
    return tuple(int(part) for part in spark.version.split(".")[:2]) >= (4, 2)


class Pump:
    """A query from a store to Parquet that runs until nothing is left, with one checkpoint."""

    def __init__(self, spark: SparkSession, place: Path, **options: object) -> None:
        self.spark = spark
        self.options = {"columns": COLUMNS, "startingOffsets": "earliest", **options}
        self.checkpoint = str(place / "checkpoint")
        self.out = str(place / "out")

    def run(self) -> StreamingQuery:
        frame = self.spark.readStream.format("flaremq").options(**self.options).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", self.checkpoint)
        query = writer.trigger(availableNow=True).start(self.out)
        assert query.awaitTermination(120)
        return query

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.read.parquet(self.out).collect())


def test_a_stream_goes_on_from_its_checkpoint_without_loss_or_repetition(
    spark: SparkSession, fresh_store: FilledStore, tmp_path: Path
) -> None:
    pump = Pump(spark, tmp_path, **fresh_store.options)
    pump.run()
    expected = fresh_store.offsets(*COLUMNS.split(","))
    assert pump.rows() == expected
    more = fill_store(fresh_store.root, count=100, first=600)
    pump.run()
    pump.run()
    assert pump.rows() == sorted(expected + more.offsets(*COLUMNS.split(",")))


def test_available_now_takes_as_many_batches_as_the_limit_asks_for(
    spark: SparkSession, orders_store: FilledStore, tmp_path: Path
) -> None:
    pump = Pump(spark, tmp_path, maxOffsetsPerTrigger=250, **orders_store.options)
    counts = [progress["numInputRows"] for progress in pump.run().recentProgress]
    if not has_admission_control(spark):  # there a run is one batch
        counts += [progress["numInputRows"] for _ in range(2) for progress in pump.run().recentProgress]
    assert [count for count in counts if count] == [250, 250, 100]
    assert pump.rows() == orders_store.offsets(*COLUMNS.split(","))


def test_a_group_shows_how_far_a_stream_has_come(spark: SparkSession, tmp_path: Path) -> None:
    with ephemeral_broker() as broker:
        with sync.Producer(broker.name_server, group="p") as producer:
            for at in range(40):
                producer.send(Message("orders", b"%d" % at))
        pump = Pump(
            spark,
            tmp_path,
            nameServer=broker.name_server,
            topic="orders",
            consumerGroup="spark-query",
            maxOffsetsPerTrigger=15,
        )
        for _ in range(1 if has_admission_control(spark) else 4):  # there a run is one batch, told by the next
            pump.run()
        assert sorted(int(row[3]) for row in pump.rows()) == list(range(40))
        with sync.Admin(broker.name_server) as admin:
            stats = admin.group_progress("spark-query", topic="orders")
    assert sum(entry.broker_offset for entry in stats.offset_table.values()) == 40
    assert sum(entry.consumer_offset for entry in stats.offset_table.values()) == 40


@pytest.mark.parametrize(
    ("given", "schema", "sentence"),
    [
        ({"keys": "k-1"}, None, "keys is for batches; filter a stream by its keys column"),
        ({"endingOffsets": "latest"}, None, "endingOffsets and endingTimestamp are for batches; a stream has no end"),
        ({"path": "/nowhere"}, None, "path /nowhere does not exist"),
        ({"colour": "red"}, "topic string", "unknown option colour: did you mean columns?"),
        ({}, "topic int", "column 'topic' is int in the schema but string in messages"),
    ],
)
def test_wrong_options_of_a_stream_are_told_in_our_own_words(
    spark: SparkSession,
    orders_store: FilledStore,
    tmp_path: Path,
    given: dict[str, str],
    schema: str | None,
    sentence: str,
) -> None:
    from flaremq.errors import FlareMQError
    from flaremq.pipeline.jobs.tasks import error_in_text, translated_errors

    reader = spark.readStream.format("flaremq").options(**{**orders_store.options, **given})
    frame = (reader if schema is None else reader.schema(schema)).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(FlareMQError) as told, translated_errors():
        writer.trigger(availableNow=True).start().awaitTermination(120)
    assert str(told.value) == sentence
    assert "Traceback" not in str(told.value.__cause__)
    assert error_in_text(str(told.value.__cause__)) is not None


def test_a_group_without_a_place_for_its_progress_is_an_error_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    with ephemeral_broker(path=str(tmp_path / "live")) as broker:
        with sync.Producer(broker.name_server, group="p") as producer:
            producer.send(Message("orders", b"x"))
        pump = Pump(spark, tmp_path, path=str(tmp_path / "live"), consumerGroup="spark-query")
        with pytest.raises(Exception, match="set commitNameServer"):
            pump.run()
