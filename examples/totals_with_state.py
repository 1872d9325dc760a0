"""A running total for each customer, kept by Spark between batches.

    python examples/totals_with_state.py STORE CHECKPOINT

``transformWithStateInPandas`` is the newer way and needs the state store RocksDB; ``applyInPandasWithState`` works with
the default one. Both see each message once: offsets and state are in the same checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "customer string, amount double"
TOTALS = "customer string, orders long, total double"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def orders(spark: SparkSession, store: str) -> DataFrame:
    options = {"topic": "orders", "startingOffsets": "earliest", "bodyFormat": "json", "bodySchema": SCHEMA}
    return spark.readStream.format("flaremq").options(**options).option("columns", "customer,amount").load(store)


def by_transform_with_state(messages: DataFrame) -> DataFrame:
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Totals(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._state = handle.getValueState("totals", "orders long, total double")

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            known = self._state.get() if self._state.exists() else (0, 0.0)
            totals = added(known, rows)
            self._state.update(totals)
            yield pd.DataFrame([(key[0], *totals)], columns=["customer", "orders", "total"])

        def close(self) -> None:
            pass

    return messages.groupBy("customer").transformWithStateInPandas(
        statefulProcessor=Totals(), outputStructType=TOTALS, outputMode="Update", timeMode="None"
    )


def by_apply_in_pandas(messages: DataFrame) -> DataFrame:
    def update(key: Any, rows: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        totals = added(state.get if state.exists else (0, 0.0), rows)
        state.update(totals)
        yield pd.DataFrame([(key[0], *totals)], columns=["customer", "orders", "total"])

    return messages.groupBy("customer").applyInPandasWithState(
        update, TOTALS, "orders long, total double", "Update", "NoTimeout"
    )


def added(known: Any, rows: Iterable[pd.DataFrame]) -> tuple[int, float]:
    count, total = known
    for part in rows:
        count, total = count + len(part), total + float(part["amount"].sum())
    return count, total


if __name__ == "__main__":
    from flaremq.pipeline.jobs.session import spark_session

    session = spark_session(settings={"spark.sql.streaming.stateStore.providerClass": ROCKS_DB})
    writer = by_transform_with_state(orders(session, sys.argv[1])).writeStream.format("console").outputMode("update")
    writer.option("checkpointLocation", sys.argv[2]).start().awaitTermination()
