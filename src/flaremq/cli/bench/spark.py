"""``flaremq bench spark``: the store as a Spark table, one kind of question at a time."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable
from typing import Any

import click

from flaremq.cli.bench.load import COUNT, TOPIC, Load, bench_folder, body_size_option, messages_option, path_option
from flaremq.cli.bench.report import print_report
from flaremq.cli.parameters import read_properties
from flaremq.cli.pipeline.job import spark_for, spark_options
from flaremq.errors import FlareMQError


@click.command()
@click.option(
    "--case",
    type=click.Choice(["count", "bodies", "all", "key", "archive", "verify"]),
    default="bodies",
    show_default=True,
    help="Count, every body to the JVM, all columns, one key, the archive job, or the verify job.",
)
@messages_option(200_000)
@body_size_option()
@click.option("--rounds", type=COUNT, default=5, show_default=True, help="How often; the latency is that of a round.")
@path_option
@spark_options
def spark(
    case: str,
    messages: int,
    body_size: int,
    rounds: int,
    path: str | None,
    master: str | None,
    settings: tuple[str, ...],
) -> None:
    """Read a store with Spark; the start of Spark and one warm-up round are not counted."""
    from flaremq.pipeline.jobs.session import master_of

    load = Load(messages, body_size, path, read_properties(None, ()))
    latencies = array("q")
    with bench_folder(path) as folder, spark_for("bench", master, settings) as start:
        store = os.path.join(folder, "store")
        _fill(load, store)
        session = start()
        work = _work(case, session, store, folder, messages)
        for round_number in range(-1, rounds):
            began = time.perf_counter_ns()
            work(round_number)
            if round_number >= 0:
                latencies.append(time.perf_counter_ns() - began)
        chosen = master_of(session)
    asked = {"case": case, "bodySize": body_size, "rounds": rounds, "master": chosen}
    print_report("spark", asked, messages * rounds, sum(latencies) / 1e9, latencies)


def _fill(load: Load, path: str) -> None:
    from flaremq import MessageStore

    with MessageStore.open(path, load.options("ASYNC_FLUSH")) as store:
        load.fill(store)


def _work(case: str, session: Any, store: str, folder: str, messages: int) -> Callable[[int], None]:
    def table(**options: str) -> Any:
        return session.read.format("flaremq").options(path=store, topic=TOPIC, **options).load()

    def expect(found: int, wanted: int) -> None:
        if found != wanted:
            raise FlareMQError(f"{case}: {found} where {wanted} are stored")

    def count(_: int) -> None:
        expect(table(columns="queueOffset").count(), messages)

    def bodies(_: int) -> None:
        rows = table(columns="body").selectExpr("count(*) AS n", "sum(length(body)) AS bytes").collect()
        expect(rows[0]["n"], messages)

    def everything(_: int) -> None:
        table().write.format("noop").mode("overwrite").save()

    def key(_: int) -> None:
        expect(table(keys=f"key-{messages // 2}").count(), 1)

    def archive(number: int) -> None:
        from flaremq.pipeline.jobs.archive import archive as job

        expect(job(session, {"path": store, "topic": TOPIC}, os.path.join(folder, f"archive{number}")).rows, messages)

    def verify(_: int) -> None:
        from flaremq.pipeline.jobs.verify.job import verify as job

        expect(job(session, path=store).records, messages)

    return {"count": count, "bodies": bodies, "all": everything, "key": key, "archive": archive, "verify": verify}[case]
