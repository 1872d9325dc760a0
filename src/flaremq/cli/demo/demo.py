"""``flaremq demo``: the whole product in one go on this machine.

A name server and a broker serve a small shop while a Spark stream consumes it live as a consumer group; the broker is
killed in the middle and goes on. Then Spark archives the store, proves it, asks it in SQL and writes a report. Steps
that count the same thing must agree; if two numbers that must be equal are not, the demo says so and fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from typing import TYPE_CHECKING

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.demo.story import Story
from flaremq.cli.parameters import debug_option
from flaremq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flaremq.cli.demo.server import DemoServer
    from flaremq.cli.demo.spark import DemoSpark
    from flaremq.cli.demo.traffic import Plan, Told


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
@debug_option
def demo(messages: int, folder: str | None, master: str, output: str) -> int:
    """The whole product in one go: broker, clients, a Spark stream, archive, proof, SQL, report.

    Ends with a table of counts that must agree; the exit code is 1 if they do not.
    """
    path = _empty_folder(folder)
    story = Story(quiet=output == "json")
    _run(story, path, messages, master)
    if output == "json":
        out.print_json({"agrees": story.agrees, "folder": path, "numbers": story.numbers, "checks": story.checks})
    else:
        out.print_rows(story.checks, out.TABLE, title="\nDo the numbers agree?")
        verdict = "All numbers agree." if story.agrees else "SOME NUMBERS DO NOT AGREE: please report this."
        click.echo(f"\n{verdict} It took {story.elapsed:.0f} s.")
        click.echo(f"Report:   {os.path.join(path, 'report.html')}")
        click.echo(f"Look on:  {sys.argv[0]} pipeline sql --path {os.path.join(path, 'store')}")
    return failure.DONE if story.agrees else failure.FAILED


_MARK = ".flaremq-demo"


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


def _run(story: Story, path: str, messages: int, master: str) -> None:
    import asyncio

    from flaremq.cli.demo.server import DemoServer
    from flaremq.cli.demo.spark import DemoSpark
    from flaremq.cli.demo.traffic import Plan, Told, create_topics

    plan, told = Plan.of(messages), Told()
    server = DemoServer(os.path.join(path, "store"))
    spark = DemoSpark(story, path, master)
    starting = threading.Thread(target=spark.start)
    starting.start()  # a JVM takes its time; the broker does not
    try:
        seconds = server.start()
        story.tell(f"Name server {server.name_server} and broker are up in {seconds:.2f} s; Spark is starting.")
        asyncio.run(create_topics(server.name_server))
        starting.join()
        spark.raise_if_failed()
        _traffic(story, server, spark, plan, told)
        server.stop()
        _pipeline(story, spark, plan, told)
    finally:
        starting.join()
        spark.stop()
        server.kill()


def _traffic(story: Story, server: DemoServer, spark: DemoSpark, plan: Plan, told: Told) -> None:
    import asyncio

    from flaremq.cli.demo import traffic
    from flaremq.cli.progress import count_progress

    name_server = server.name_server
    spark.start_stream(name_server)
    story.tell("A Spark stream reads clicks, orders and payments live, as consumer group spark-demo.")
    total = plan.clicks + plan.orders + plan.payments
    with count_progress("messages acknowledged", total) as progress:
        for wave in (0, 1):
            began = story.elapsed
            before = told.stored.total()
            asyncio.run(traffic.bulk_wave(name_server, plan, wave, 2, told, lambda _: progress(told.stored.total())))
            count, seconds = told.stored.total() - before, story.elapsed - began
            story.tell(f"{count:,} messages acknowledged, each on disk first ({count / seconds:,.0f} a second).")
            if wave == 0:
                spark.wait_for_first_batch()
                server.kill()
                seconds = server.start()
                story.tell(f"The broker was killed (SIGKILL) and is back after {seconds:.2f} s; the stream goes on.")

    async def the_rest() -> None:
        await asyncio.gather(
            traffic.refunds(name_server, plan, told),
            traffic.reminders(name_server, plan, told),
            traffic.transfers(name_server, plan, told),
        )
        while await traffic.delivered(name_server, "reminders") < plan.reminders:
            await asyncio.sleep(0.1)

    asyncio.run(the_rest())
    story.tell(f"Group billing consumed {told.refunds_done:,} refunds, {told.refunds_failed_once} at the second try.")
    story.tell(
        f"{told.stored['reminders']} delayed reminders were delivered; of {told.half} transactions {told.rolled_back} "
        f"were rolled back."
    )
    story.numbers["acknowledged"] = dict(sorted(told.stored.items()))
    story.check("messages acknowledged", told.stored.total(), _wanted(plan))
    story.check("refunds consumed", told.refunds_done, plan.refunds)
    spark.finish_stream(name_server, told)


def _wanted(plan: Plan) -> int:
    from flaremq.cli.demo.traffic import rolled_back

    sent = plan.clicks + plan.orders + plan.payments + plan.refunds + plan.reminders + plan.transfers
    return sent - rolled_back(plan.transfers)


def _pipeline(story: Story, spark: DemoSpark, plan: Plan, told: Told) -> None:
    story.tell("The broker is stopped. What follows is Spark on the files it left.")
    spark.archive(told)
    spark.verify(told)
    spark.sql(told)
    spark.report(told)
