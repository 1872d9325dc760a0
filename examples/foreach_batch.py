"""One stream into two topics: large orders go to one, all amounts to another, each message once.

    python examples/foreach_batch.py STORE OTHER_STORE CHECKPOINT

``foreachBatch`` runs a batch again if the program died in it, and each of its writes is a batch write of its own. A
``writeId`` that has the batch's number in it makes the second attempt add only what the first did not. The rows must
come in the same partitions then, so they come as they were read, without a shuffle.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "customer string, amount double"


def share_out(spark: SparkSession, store: str, target: str, checkpoint: str) -> None:
    """Everything that is there by now."""
    orders = (
        spark.readStream.format("flaremq")
        .options(topic="orders", startingOffsets="earliest", bodyFormat="json", bodySchema=SCHEMA)
        .load(store)
    )

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.persist()  # read once, written twice
        large = batch.where("amount >= 100").selectExpr("to_json(struct(customer, amount)) AS body", "customer AS keys")
        put(large, "large-orders", f"large-{batch_id}")
        put(batch.selectExpr("string(amount) AS body"), "amounts", f"amounts-{batch_id}")
        batch.unpersist()

    def put(rows: DataFrame, topic: str, write_id: str) -> None:
        rows.write.format("flaremq").mode("append").options(topic=topic, writeId=write_id).save(target)

    query = orders.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    from flaremq.pipeline.jobs.session import spark_session

    share_out(spark_session(), *sys.argv[1:4])
