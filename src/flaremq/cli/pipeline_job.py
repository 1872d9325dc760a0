"""What all pipeline commands share: where the data is, which Spark, and how progress is shown."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from flaremq.cli import failure
from flaremq.errors import InvalidArgumentError

F = TypeVar("F", bound=Callable[..., Any])
Progress = Callable[[str, int, int], None]


def source_options(command: F) -> F:
    """Where messages come from, and which of them."""
    for option in (
        click.option(
            "--option",
            "more",
            metavar="KEY=VALUE",
            multiple=True,
            help='Any other option of format("flaremq"), e.g. failOnDataLoss=false (repeatable).',
        ),
        click.option("--until", metavar="MS", type=int, help="Only messages stored before this time (ms since 1970)."),
        click.option("--from", "since", metavar="MS", type=int, help="Only messages stored at or after this time."),
        click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Only this topic (repeatable)."),
        click.option("--archive", metavar="DIR", help="An archive; with --path or -n one table over both."),
        click.option("-n", "--name-server", metavar="ADDR", help="Read over the wire from this cluster."),
        click.option("--path", metavar="STORE", help="A store directory."),
    ):
        command = option(command)
    return command


def spark_options(command: F) -> F:
    """Which Spark."""
    for option in (
        click.option("--conf", "settings", metavar="KEY=VALUE", multiple=True, help="A Spark setting (repeatable)."),
        click.option("--master", metavar="URL", help="The Spark master.  [default: local[*]]"),
    ):
        command = option(command)
    return command


def options_of(
    *,
    path: str | None = None,
    name_server: str | None = None,
    archive: str | None = None,
    topics: tuple[str, ...] = (),
    since: int | None = None,
    until: int | None = None,
    more: tuple[str, ...] = (),
) -> dict[str, str]:
    """The same as the options of ``format("flaremq")``."""
    given = {
        "path": path,
        "nameServer": name_server,
        "archive": archive,
        "topic": ",".join(topics) or None,
        "startingTimestamp": since,
        "endingTimestamp": until,
    }
    options = {name: str(value) for name, value in given.items() if value is not None}
    return options | _assignments(more, "--option")


@contextlib.contextmanager
def spark_for(name: str, master: str | None, settings: tuple[str, ...]) -> Iterator[Any]:
    """A session for one command."""
    from flaremq.pipeline.jobs.session import spark_session

    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = spark_session(
        master, name=f"flaremq-{name}", settings=_assignments(settings, "--conf"), quiet=not failure.wants_traceback()
    )
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def task_progress() -> Iterator[Progress | None]:
    """One bar a step, on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        known: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what, total=total)
            bars.update(known[what], completed=done, total=total)

        yield show


def _assignments(texts: tuple[str, ...], flag: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidArgumentError(f"{flag} {text!r} is not KEY=VALUE")
        pairs[name] = value
    return pairs
