"""``flaremq demo``: the whole product in one go on this machine.

A name server and a broker serve a small shop while a Spark stream consumes it live as a consumer group; the broker is
killed in the middle and goes on. Then Spark archives the store, proves it, asks it in SQL and writes a report, and the
orders become an Iceberg table that DuckDB reads. Steps that count the same thing must agree; if two numbers that must
be equal are not, the demo says so and fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.demo.summary import Summary
from flaremq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flaremq.cli.demo.spark import DemoSpark
    from flaremq.cli.demo.traffic import Plan, Tally
    from flaremq.cli.servers.child import ServerProcess


@click.command()
@click.option(
    "--messages", type=click.IntRange(min=1_000), default=1_000_000, show_default=True, help="How many to store."
)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(),
    default=None,
    help="Where everything goes: a new or empty folder, or that of an earlier demo.  [default: flaremq-demo]",
)
@click.option("--master", default="local[2]", show_default=True, help="The Spark master.")
@click.option("-o", "--output", type=click.Choice(["story", "json"]), default="story", help="A story, or its numbers.")
def demo(messages: int, folder: str | None, master: str, output: str) -> int:
    """The whole product in one go: broker, clients, a Spark stream, archive, proof, SQL, report, table.

    Ends with a table of counts that must agree; the exit code is 1 if they do not.
    """
    path = _empty_folder(folder)
    out.tell_of_core()
    summary = Summary(quiet=output == "json")
    _run(summary, path, messages, master)
    if output == "json":
        out.print_json({"agrees": summary.agrees, "folder": path, "numbers": summary.numbers, "checks": summary.checks})
    else:
        out.print_rows(summary.checks, out.TABLE, title="\nDo the numbers agree?")
        verdict = "All numbers agree." if summary.agrees else "SOME NUMBERS DO NOT AGREE: please report this."
        click.echo(f"\n{verdict} It took {summary.elapsed:.0f} s.")
        click.echo(f"Report:   {os.path.join(path, 'report.html')}")
        click.echo(f"Look on:  {sys.argv[0]} pipeline sql --path {os.path.join(path, 'store')}")
    return failure.DONE if summary.agrees else failure.FAILED


_MARK = ".flaremq-demo"
_START_SECONDS = 30.0  # that a session of Spark may take to start after the demo was broken off


def _empty_folder(folder: str | None) -> str:
    chosen = os.path.abspath(folder or "flaremq-demo")
    if os.path.exists(chosen):
        if os.path.isdir(chosen) and os.path.exists(os.path.join(chosen, _MARK)):
            shutil.rmtree(chosen)  # what an earlier demo made, and nothing else
        elif not os.path.isdir(chosen) or os.listdir(chosen):
            raise InvalidArgumentError(f"{chosen} exists and is not an empty folder; give a new one with --out")
    os.makedirs(chosen, exist_ok=True)
    with open(os.path.join(chosen, _MARK), "w", encoding="utf-8"):
        pass
    return chosen


def _run(summary: Summary, path: str, messages: int, master: str) -> None:
    import asyncio

    from flaremq.cli.demo.spark import DemoSpark
    from flaremq.cli.demo.traffic import Plan, Tally, create_topics
    from flaremq.cli.servers.child import ServerProcess

    plan, tally = Plan.of(messages), Tally()
    server = ServerProcess(os.path.join(path, "store"))
    spark = DemoSpark(summary, path, master)
    stderr = os.dup(2)  # sent elsewhere while the JVM starts
    starting = threading.Thread(target=spark.start, daemon=True)
    starting.start()  # a JVM takes its time; the broker does not
    try:
        seconds = server.start()
        summary.step(f"Name server {server.name_server} and broker are up in {seconds:.2f} s; Spark is starting.")
        asyncio.run(create_topics(server.name_server))
        starting.join()
        spark.raise_if_failed()
        _traffic(summary, server, spark, plan, tally)
        server.stop()
        _pipeline(summary, spark, plan, tally)
    finally:
        # Bounded: a Ctrl-C within a call of ``logging`` may keep its lock for ever, and a process is started under it.
        starting.join(_START_SECONDS)
        os.dup2(stderr, 2)  # if it has not started yet: what ended the demo shall be seen
        os.close(stderr)
        spark.stop()
        server.kill()


def _traffic(summary: Summary, server: ServerProcess, spark: DemoSpark, plan: Plan, tally: Tally) -> None:
    import asyncio

    from flaremq.cli.demo import traffic
    from flaremq.cli.progress import count_progress

    name_server = server.name_server
    spark.start_stream(name_server)
    summary.step("A Spark stream reads clicks, orders and payments live, as consumer group spark-demo.")
    total = plan.clicks + plan.orders + plan.payments
    with count_progress("messages acknowledged", total) as progress:
        for wave in (0, 1):
            began = summary.elapsed
            before = tally.stored.total()
            asyncio.run(traffic.bulk_wave(name_server, plan, wave, 2, tally, lambda _: progress(tally.stored.total())))
            count, seconds = tally.stored.total() - before, summary.elapsed - began
            summary.step(f"{count:,} messages acknowledged, each on disk first ({count / seconds:,.0f} a second).")
            if wave == 0:
                spark.wait_for_first_batch()
                server.kill()
                seconds = server.start()
                summary.step(f"The broker was killed (SIGKILL) and is back after {seconds:.2f} s; the stream goes on.")
                asyncio.run(traffic.reminders(name_server, plan, tally))  # due when the next wave has been sent

    async def the_rest() -> None:
        await asyncio.gather(
            traffic.refunds(name_server, plan, tally),
            traffic.transfers(name_server, plan, tally),
        )
        while await traffic.delivered(name_server, "reminders") < plan.reminders:
            await asyncio.sleep(0.1)

    asyncio.run(the_rest())
    summary.step(
        f"Group billing consumed {tally.refunds_done:,} refunds, {tally.refunds_failed_once} at the second try."
    )
    summary.step(
        f"{tally.stored['reminders']} delayed reminders were delivered; "
        f"of {tally.half} transactions {tally.rolled_back} were rolled back."
    )
    summary.numbers["acknowledged"] = dict(sorted(tally.stored.items()))
    summary.check("messages acknowledged", tally.stored.total(), _wanted(plan))
    summary.check("refunds consumed", tally.refunds_done, plan.refunds)
    spark.finish_stream(name_server, tally)


def _wanted(plan: Plan) -> int:
    from flaremq.cli.demo.traffic import rolled_back

    sent = plan.clicks + plan.orders + plan.payments + plan.refunds + plan.reminders + plan.transfers
    return sent - rolled_back(plan.transfers)


def _pipeline(summary: Summary, spark: DemoSpark, plan: Plan, tally: Tally) -> None:
    summary.step("The broker is stopped. What follows is Spark on the files it left.")
    spark.archive(tally)
    spark.verify(tally)
    with ThreadPoolExecutor(1, "flaremq-demo") as beside:
        report = beside.submit(spark.report, tally)  # questions are short; while Spark plans one, a core is free
        spark.sql(tally)
        report.result()
    spark.table(tally)
