"""The sink of ``format("flaremq")`` in a real Spark: batches, streams, replayed batches, errors on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flaremq.clock import SystemClock
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.verify.verifier import StoreVerifier
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.pipeline.sink_lab import stored, stored_bodies

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def broker() -> Iterator[EphemeralBroker]:
    with ephemeral_broker(clock=SystemClock()) as running:
        yield running


def rows(spark: SparkSession, count: int = 1000) -> DataFrame:
    return spark.range(0, count, 1, 3).selectExpr("concat('row-', id) AS body")


def write(frame: DataFrame, **options: object) -> None:
    frame.write.format("flaremq").options(**options).mode("append").save()


def stream(spark: SparkSession, source: Path, checkpoint: Path, **options: object) -> None:
    """All of a folder of Parquet files, as a stream that ends when it has seen them."""
    query = (
        spark.readStream.schema("body string")
        .option("maxFilesPerTrigger", 3)
        .parquet(str(source))
        .writeStream.format("flaremq")
        .options(checkpointLocation=str(checkpoint), **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died after the tasks of the last batch, before Spark wrote down that it was done."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def expected(count: int = 1000) -> list[str]:
    return sorted(f"row-{number}" for number in range(count))


def test_every_column_of_a_frame_becomes_part_of_a_message(spark: SparkSession, broker: EphemeralBroker) -> None:
    frame = spark.range(0, 600, 1, 3).selectExpr(
        "encode(concat('row-', id), 'UTF-8') AS body",
        "IF(id % 2 = 0, 'even', NULL) AS topic",
        "IF(id % 3 = 0, 'tag', NULL) AS tags",
        "array(concat('k-', id), 'all') AS keys",
        "map('number', CAST(id AS STRING)) AS properties",
        "CAST(id % 4 AS INT) AS queueId",
    )
    write(frame, nameServer=broker.name_server, topic="odd")
    found = {bytes(m.body).decode(): m for topic in ("even", "odd") for m in stored(broker, topic)}
    assert sorted(found) == expected(600)
    for number in range(600):
        message = found[f"row-{number}"]
        assert (message.topic, message.queue_id) == (("even", "odd")[number % 2], number % 4)
        assert message.keys == [f"k-{number}", "all"]
        assert message.tags == (None if number % 3 else "tag")
        assert message.properties["number"] == str(number)


def test_a_batch_write_with_a_name_can_be_run_again(spark: SparkSession, broker: EphemeralBroker) -> None:
    for _ in range(2):
        write(rows(spark), nameServer=broker.name_server, topic="named", writeId="load of May")
    assert sorted(stored_bodies(broker, "named")) == expected()
    write(rows(spark), nameServer=broker.name_server, topic="named")
    assert len(stored(broker, "named")) == 2000


@pytest.mark.parametrize("where", ["wire", "store"])
def test_a_replayed_batch_of_a_stream_adds_nothing(
    spark: SparkSession, broker: EphemeralBroker, tmp_path: Path, where: str
) -> None:
    source, checkpoint, root = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "store"
    rows(spark).repartition(6).write.parquet(str(source))
    options = (
        {"nameServer": broker.name_server} if where == "wire" else {"path": root, "mappedFileSizeCommitLog": 1 << 20}
    )

    def found() -> list[str]:
        if where == "wire":
            return sorted(stored_bodies(broker, "replayed"))
        return sorted(
            row.body.decode() for row in spark.read.format("flaremq").load(str(root)).select("body").collect()
        )

    stream(spark, source, checkpoint, topic="replayed", **options)
    assert found() == expected()
    for _ in range(2):
        forget_last_commit(checkpoint)
        stream(spark, source, checkpoint, topic="replayed", **options)
        assert found() == expected()
    spark.range(1000, 1100).selectExpr("concat('row-', id) AS body").write.mode("append").parquet(str(source))
    stream(spark, source, checkpoint, topic="replayed", **options)
    assert found() == expected(1100)
    if where == "store":
        with StoreReader.open(root) as reader:
            assert list(StoreVerifier(reader).findings()) == []


def test_a_failed_job_leaves_nothing_in_a_closed_store(spark: SparkSession, tmp_path: Path) -> None:
    frame = rows(spark).selectExpr("IF(body = 'row-999', raise_error('no'), body) AS body")
    with pytest.raises(Exception, match="no"):
        write(frame, path=tmp_path / "store", topic="T")
    assert not list(tmp_path.glob("store/**/*.rows")) and not (tmp_path / "store" / "commitlog").exists()


def test_rows_that_were_read_can_be_written_back(spark: SparkSession, broker: EphemeralBroker) -> None:
    place = {"nameServer": broker.name_server}
    write(rows(spark).selectExpr("body", "'t' AS tags", "'k1 k2' AS keys"), topic="T", **place)
    read = (
        spark.read.format("flaremq").options(topic="T", **place).load().selectExpr("* EXCEPT (topic)", "'C' AS topic")
    )
    strict = read.select("body", "topic", "properties")
    assert "reservedProperties=drop" in refused(lambda: write(strict, **place))
    assert "reservedProperties=drop" in refused(lambda: write(read, reservedProperties="fail", **place))
    write(read, **place)
    copied = stored(broker, "C")
    assert sorted(stored_bodies(broker, "C")) == sorted(stored_bodies(broker, "T"))
    assert {(message.tags, tuple(message.keys)) for message in copied} == {("t", ("k1", "k2"))}


def test_a_named_write_in_other_partitions_fails(spark: SparkSession, broker: EphemeralBroker) -> None:
    frame, place = rows(spark), {"nameServer": broker.name_server, "topic": "T", "writeId": "nightly"}
    write(frame.repartition(3, "body"), **place)
    assert "did not come again in partition" in refused(lambda: write(frame.repartition(4, "body"), **place))
    assert "an earlier attempt at it stored rows of number" in refused(lambda: write(frame.coalesce(1), **place))


def refused(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:
        action()
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_what_is_wrong_is_told_before_a_job_starts(
    spark: SparkSession, broker: EphemeralBroker, tmp_path: Path
) -> None:
    good = {"nameServer": broker.name_server, "topic": "refused"}
    body = rows(spark)
    cases: list[tuple[DataFrame, dict[str, Any], str]] = [
        (body, {"topic": "T"}, "neither of the options nameServer and path"),
        (body, good | {"path": tmp_path}, "both of the options nameServer and path"),
        (body, {"nameServer": broker.name_server}, "Give the option topic, or a column topic"),
        (body, good | {"toppic": "x"}, "did you mean topic?"),
        (body, good | {"mappedFileSizeCommitLog": "1"}, "belongs to path"),
        (body, good | {"requestBytes": "many"}, "whole number"),
        (body, good | {"reservedProperties": "keep"}, "one of fail, drop"),
        (body, good | {"topic": "no blanks"}, "not legal"),
        (body, good | {"topic": "SCHEDULE_TOPIC_XXXX"}, "RocketMQ's own"),
        (body, {"nameServer": "127.0.0.1:1", "topic": "T"}, "no name server can be reached"),
        (body, {"path": tmp_path / "a" / "b", "topic": "T"}, "neither"),
        (body, {"path": broker.broker.path, "topic": "T"}, "nameServer instead of path"),
        (body.selectExpr("1 AS body"), good, "body is int, it must be binary or string"),
        (body.selectExpr("body AS value"), good, "column 'value' is unknown to the sink: did you mean body? The sink"),
        (
            body.selectExpr("body", "1 AS price"),
            good,
            "column 'price' is unknown to the sink, which writes body, topic",
        ),
        (body, good | {"onDoubt": "maybe"}, "one of fail, send"),
        (body.selectExpr("body", "'x' AS tag"), good, "did you mean tags?"),
        (body.selectExpr("'x' AS tags"), good, "a column body"),
        (body.selectExpr("body", "map('a', 1) AS properties"), good, "it must be map<string,string>"),
        (body.selectExpr("body", "'1' AS queueId"), good, "a whole number"),
    ]
    for frame, options, words in cases:
        assert words in refused(lambda frame=frame, options=options: write(frame, **options))
    overwrite = body.write.format("flaremq").options(**good).mode("overwrite")
    assert "append is the only way" in refused(overwrite.save)
    assert stored(broker, "refused") == []
    text = refused(lambda: write(body.selectExpr("IF(body = 'row-7', '', body) AS body"), **good))
    assert "row 7 has an empty body" in text and "partition 0" in text
