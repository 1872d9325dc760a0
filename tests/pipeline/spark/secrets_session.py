"""A program with a Spark session of its own that is given secrets and then looks for them in all that Spark shows.

``python -m tests.pipeline.spark.secrets_session FOLDER``: prints a JSON object, for each place how much was looked
through and which secrets were found there.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flaremq import sync
from flaremq.client.admin.access import AclEntry
from flaremq.client.credentials import Credentials
from flaremq.message.message import Message
from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.jobs.session import spark_session
from tests.support import planted
from tests.support.guarded_lab import ROOT, GuardedLab, write_private
from tests.support.planted import files_with, found_in

_COUNT = 40


class Places:
    """What was looked at."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, list[str]]] = {}

    def look(self, place: str, text: str | bytes) -> None:
        size, found = self.found.get(place, (0, []))
        self.found[place] = size + len(text), sorted({*found, *found_in(text)})

    def look_into(self, place: str, folder: Path) -> None:
        files = [path for path in folder.rglob("*") if path.is_file()]
        self.found[place] = len(files), files_with(folder)


def main(folder: Path) -> None:
    places = Places()
    logged = io.StringIO()
    logging.basicConfig(level=logging.DEBUG, stream=logged)
    logging.getLogger("py4j").setLevel(logging.INFO)  # at DEBUG it writes down every call, whatever is in it
    with GuardedLab(folder / "lab") as lab:
        accounts = _accounts(lab, folder)
        with sync.Producer(lab.name_server, credentials=ROOT) as producer:
            for number in range(_COUNT):
                producer.send(Message("orders", b'{"n": %d}' % number, keys=[f"k-{number}"]))
        spark = spark_session("local[2]", name="secrets", settings=_settings(folder))
        try:
            for name, account in accounts.items():
                _work(spark, places, folder / name, {"nameServer": lab.name_server, **account})
            _look_at_the_session(spark, places)
        finally:
            _look_at_processes(places)
            for name in ("local", "warehouse", *accounts):
                places.look_into(f"files: {name}", folder / name)
            spark.stop()
    places.look_into("files: event log", folder / "events")
    places.look("log of Python", logged.getvalue())
    print(json.dumps(places.found))


def _accounts(lab: GuardedLab, folder: Path) -> dict[str, dict[str, str]]:
    """An account for each way to give a secret."""
    everything = AclEntry(resource="*", actions=("All",), decision="Allow")
    with sync.Admin(lab.name_server, credentials=ROOT) as admin:
        for name, password in (("by-file", planted.CLIENT), ("by-environment", planted.TOKEN)):
            admin.create_user(lab.broker.address, name, password)
            admin.create_acl(lab.broker.address, f"User:{name}", [everything])
    lab.look()
    os.environ["SECRET_OF_A_TEST"] = planted.TOKEN
    literal: Credentials = ROOT
    return {
        "literal": {"accessKey": literal.access_key, "secretKey": literal.secret_key},
        "file": {"accessKey": "by-file", "secretKeyFile": write_private(folder / "secret" / "key", planted.CLIENT)},
        "environment": {"accessKey": "by-environment", "secretKey": "env:SECRET_OF_A_TEST"},
    }


def _settings(folder: Path) -> dict[str, str]:
    for name in ("local", "warehouse", "events"):
        (folder / name).mkdir()
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{folder}/events",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}/local",
    }


def _work(spark: Any, places: Places, folder: Path, options: dict[str, str]) -> None:
    """Reads, writes, tables, a stream and an archive with one account, and errors of them."""
    reading = options | {"topic": "orders"}
    frame = spark.read.format("flaremq").options(**reading).load()
    assert frame.count() == _COUNT
    _look_at_plans(spark, places, frame)
    writing = spark.range(4).selectExpr("cast(id as string) as body").write.format("flaremq").mode("append")
    writing.options(topic=f"copy-{folder.name}", **options).save()
    settings = ", ".join(f"{name} '{value}'" for name, value in reading.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW messages USING flaremq OPTIONS ({settings})")
    _look_at_plans(spark, places, spark.table("messages"))
    with _looked_at(places, "error of a table"):
        spark.sql(f"CREATE TABLE messages_{folder.name} USING flaremq OPTIONS ({settings})")
        table = f"messages_{folder.name}"
        assert spark.table(table).count() == _COUNT
        for question in (f"SHOW CREATE TABLE {table}", f"DESCRIBE EXTENDED {table}", f"SHOW TBLPROPERTIES {table}"):
            places.look("table of a catalog", str(spark.sql(question).collect()))
        places.look("table of a catalog", spark.table(table).schema.json())
    for wrong in ({"topic": "nowhere"}, {"topicc": "orders"}, {"startingOffsets": "{"}, {"fetchRetryMs": "x"}):
        with _looked_at(places, "error of a read"):
            spark.read.format("flaremq").options(**(reading | wrong)).load().count()
        with _looked_at(places, "error of a write"):
            writing.options(**(options | wrong | {"topic": "a b"})).save()
    stream = spark.readStream.format("flaremq").options(startingOffsets="earliest", **reading).load()
    query = (
        stream.selectExpr("body")
        .writeStream.format("flaremq")
        .options(topic=f"stream-{folder.name}", checkpointLocation=str(folder / "checkpoint"), **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    places.look("progress of a stream", str(query.lastProgress))
    with _looked_at(places, "error of a stream"):
        gone = spark.readStream.format("flaremq").options(**(reading | {"topic": "nowhere"})).load()
        gone.writeStream.format("noop").option("checkpointLocation", str(folder / "gone")).start().processAllAvailable()
    archive(spark, reading, str(folder / "archive"))


def _look_at_plans(spark: Any, places: Places, frame: Any) -> None:
    execution = frame._jdf.queryExecution()
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        places.look("explain", spark._jvm.PythonSQLUtils.explainString(execution, mode))
    for plan in (execution.logical(), execution.analyzed(), execution.optimizedPlan(), execution.executedPlan()):
        places.look("plans", plan.toString())
        places.look("plans as JSON", plan.toJSON())
    places.look("frame", repr(frame) + frame.schema.json())


def _look_at_the_session(spark: Any, places: Places) -> None:
    context = spark.sparkContext
    places.look("settings", str(context.getConf().getAll()))
    interface = str(context.uiWebUrl).rstrip("/")
    interface = f"http://localhost:{interface.rpartition(':')[2]}"
    api = f"{interface}/api/v1/applications/{context.applicationId}"
    for path in ("environment", "sql?details=true&planDescription=true&length=1000", "jobs", "stages?details=true"):
        places.look("REST", _read(f"{api}/{path}"))
    for path in ("SQL/", "environment/", "jobs/", "StreamingQuery/", "executors/"):
        places.look("pages", _read(f"{interface}/{path}"))
    for number in range(len(json.loads(_read(f"{api}/sql?length=1000")))):
        places.look("pages", _read(f"{interface}/SQL/execution/?id={number}"))


def _look_at_processes(places: Places) -> None:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            places.look("list of processes", Path("/proc", pid, "cmdline").read_bytes())


@contextlib.contextmanager
def _looked_at(places: Places, place: str) -> Iterator[None]:
    """Whatever is raised is looked at, and forgotten."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        places.look(place, f"{error!r} {error}")


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        data: bytes = answer.read()
    return data


if __name__ == "__main__":
    main(Path(sys.argv[1]))
