"""A program of its own: makes a table in a catalog that lasts, or reads it.

python -m tests.pipeline.spark.persistent_table PLACE "CREATE TABLE …"
"""

from __future__ import annotations

import json
import sys


def main(place: str, statement: str) -> None:
    from flaremq.pipeline.jobs.session import spark_session

    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place}/metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={place} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
    }
    spark = spark_session("local[1]", name="persistent-table", settings=settings, quiet=True)
    print(json.dumps([row.asDict() for row in spark.sql(statement).collect()]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
