"""Run Spark for a moment and write the classes that its JVM loaded into an archive: ``spark_classes.py ARCHIVE``.

More of Spark than this costs more to write down than it saves afterwards: measured with streams, tables and files.
"""

from __future__ import annotations

import sys
import tempfile

from flaremq.pipeline.jobs.session import spark_session

with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
    settings = {
        "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={sys.argv[1]} -XX:TieredStopAtLevel=1 "
        f"-XX:+UseSerialGC -Xlog:cds*=error -Djava.io.tmpdir={place}",
        "spark.log.level": "OFF",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": place,
    }
    spark = spark_session("local[1]", settings=settings)
    assert spark.sql("SELECT id % 2 AS odd, count(*) FROM range(10) GROUP BY odd ORDER BY odd").count() == 2
    gateway = spark.sparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # its JVM ends by that, and writes as it ends
    sys.exit(gateway.proc.wait())
