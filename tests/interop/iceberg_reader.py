"""Run by a Spark of its own, with Iceberg's runtime: what it finds in a table, as Parquet that anybody reads.

python iceberg_reader.py JAR METADATA OUT
"""

from __future__ import annotations

import sys


def main() -> None:
    from pyspark.sql import SparkSession

    jar, metadata, out = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "ERROR").getOrCreate()
    spark.read.format("iceberg").load(metadata).write.parquet(out)
    spark.stop()


if __name__ == "__main__":
    main()
