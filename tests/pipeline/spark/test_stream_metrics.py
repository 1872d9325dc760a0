"""Rows, bytes and lag of a stream, out of the progress that Spark tells."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.spark.stream_metrics import observed, stream_metrics
from tests.pipeline.conftest import FilledStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def nested(*ends: int) -> dict[str, Any]:
    return {"orders": {"a": {str(queue): end for queue, end in enumerate(ends)}}}


def test_lag_is_by_the_newest_offsets_that_spark_was_told() -> None:
    ours = {"endOffset": nested(5, 9), "latestOffset": nested(7, 9, 4), "numInputRows": 3}
    other = {"endOffset": 7, "latestOffset": 8, "numInputRows": 1}
    told = {"sources": [ours], "observedMetrics": {"flaremq": {"bytes": 300}}}
    lag = {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 4, "avgOffsetsBehindLatest": 2.0}
    expected = {"rows": 3, "bytes": 300, "offsetsBehindLatest": 6, **lag}
    assert stream_metrics(told) == [expected]
    assert stream_metrics(SimpleNamespace(json=json.dumps(told))) == [expected]
    assert stream_metrics(told | {"sources": [other, ours]}) == [expected | {"bytes": None}]


def test_what_spark_does_not_tell_is_none() -> None:
    told = {"sources": [{"endOffset": json.dumps(nested(5)), "latestOffset": None, "numInputRows": 3}]}
    (found,) = stream_metrics(told)
    assert (found["rows"], found["bytes"], found["offsetsBehindLatest"]) == (3, None, None)


def test_bytes_need_a_column_to_count() -> None:
    with pytest.raises(InvalidArgumentError, match="storeSize or body"):
        observed(SimpleNamespace(columns=["topic"]))  # type: ignore[arg-type]  # all that is asked


@pytest.mark.spark
def test_query_tells_rows_bytes_and_what_is_still_ahead(
    spark: SparkSession, orders_store: FilledStore, tmp_path: Path
) -> None:
    options = {"topic": "orders", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    messages = spark.readStream.format("flaremq").options(**orders_store.options, **options).load()
    query = observed(messages.select("storeSize")).writeStream.format("noop")
    started = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    started.awaitTermination()
    told = [stream_metrics(progress)[0] for progress in started.recentProgress if progress["numInputRows"]]
    assert [found["rows"] for found in told] == [300, 60]
    assert [found["offsetsBehindLatest"] for found in told] == [60, 0]
    assert sum(found["bytes"] for found in told) == sum(row["size"] for row in _sizes(spark, orders_store))


def _sizes(spark: SparkSession, store: FilledStore) -> list[Any]:
    frame = spark.read.format("flaremq").options(**store.options, topic="orders", columns="storeSize").load()
    return frame.selectExpr("storeSize AS size").collect()
