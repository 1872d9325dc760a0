"""The topic ``orders`` as a table that grows with it, and what each customer has spent so far."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    reader = spark.readStream.format("flaremq").option("startingOffsets", "earliest").option("topic", "orders")
    reader = reader.option("bodyFormat", "json").option("bodySchema", "customer string, amount double")
    columns = "queueId,queueOffset,storeTimestamp,customer,amount"
    return reader.option("columns", columns).load(spark.conf.get("orders.store"))


@dp.materialized_view
def spent() -> DataFrame:
    return (
        spark.read.table("orders").groupBy("customer").agg(F.count("*").alias("orders"), F.sum("amount").alias("total"))
    )
