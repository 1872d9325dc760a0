"""What all pipeline commands share: where the data is, which Spark, and how a result is shown."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.credentials import credential_options, pipeline_settings
from flaremq.cli.parameters import moment_value
from flaremq.errors import InvalidArgumentError, NotFoundError

F = TypeVar("F", bound=Callable[..., Any])
STORE = click.Path(exists=True, file_okay=False)
store_option = click.option("--path", metavar="STORE", type=STORE, required=True, help="The store directory.")


def source_options(command: F) -> F:
    """Where messages come from, and which of them; who asks a cluster for them."""
    for option in (
        credential_options,
        click.option(
            "--option",
            "more",
            metavar="KEY=VALUE",
            multiple=True,
            help='Any other option of format("flaremq"), e.g. failOnDataLoss=false (repeatable).',
        ),
        click.option("--until", metavar="TIME", callback=moment_value, help="Only messages stored before this time."),
        click.option(
            "--from",
            "since",
            metavar="TIME",
            callback=moment_value,
            help="Only messages stored at or after: 2h (ago), an ISO date and time, milliseconds since 1970.",
        ),
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
        click.option(
            "--master",
            metavar="URL",
            help="The Spark master, or sc://host:port for Spark Connect.  [default: local[*]]",
        ),
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
    from flaremq.options import parse_assignments

    given = {
        "path": path,
        "nameServer": name_server,
        "archive": archive,
        "topic": ",".join(topics) if topics else None,
        "startingTimestamp": since,
        "endingTimestamp": until,
    }
    options = {name: str(value) for name, value in given.items() if value is not None}
    options |= _further(parse_assignments(more, option="--option"))
    _check_places(options)
    return options


def _further(given: dict[str, str]) -> dict[str, str]:
    """Options that were spelled out, before those of the account; a secret among them would be for all to read."""
    from flaremq.pipeline.options import is_secret
    from flaremq.secret_place import names_a_secret

    for name, value in given.items():
        if is_secret(name) and not names_a_secret(value):
            raise InvalidArgumentError(
                f"--option {name} takes no secret, because everybody could read it in the list of processes: write "
                f"{name}=env:NAME or {name}=file:PATH, or use --secret-key"
            )
    own = {name.lower() for name in given}
    if "secretkeyfile" in own:
        own.add("secretkey")  # the same in other words
    return {name: value for name, value in pipeline_settings().items() if name.lower() not in own} | given


def _check_places(options: dict[str, str]) -> None:
    """A path or archive that is not there is wrong usage, as it is for ``flaremq store``."""
    from flaremq.pipeline.options import parse_options
    from flaremq.pipeline.sources.open import source_spec

    try:
        spec = source_spec(parse_options(options))
    except NotFoundError as error:
        raise InvalidArgumentError(str(error)) from error
    if spec.archive is not None:
        check_archive_place(spec.archive)


def check_archive_place(archive: str) -> None:
    """Locally; what an address leads to is found out by those who read it."""
    if "://" not in archive and not os.path.isdir(archive):
        kind = "is a file, not an archive" if os.path.exists(archive) else "does not exist"
        raise InvalidArgumentError(f"archive {archive} {kind}")


@contextlib.contextmanager
def spark_for(name: str, master: str | None, settings: tuple[str, ...]) -> Iterator[Callable[[], Any]]:
    """What starts the session of a command when a job asks for it, after all that can be checked without; stopped at
    the end. Errors of ours that come back through Spark are raised as themselves."""
    from flaremq.options import parse_assignments
    from flaremq.pipeline.jobs.session import hush, spark_session
    from flaremq.pipeline.jobs.tasks import translated_errors

    chosen = parse_assignments(settings, option="--conf")
    sessions: list[Any] = []

    def session() -> Any:
        if not sessions:
            out.tell_of_core()
            logging.getLogger("py4j").setLevel(logging.ERROR)
            quiet = not failure.wants_traceback()
            sessions.append(spark_session(master, name=f"flaremq-{name}", settings=chosen, quiet=quiet))
            hush(sessions[0])
        return sessions[0]

    try:
        with translated_errors():
            yield session
    finally:
        for spark in sessions:
            spark.stop()


def show_result(result: dict[str, Any], output: str | None) -> None:
    """A job's result: JSON, or its plain values as a table."""
    plain = {name: value for name, value in result.items() if not isinstance(value, dict | list)}
    out.print_object(result, output, lambda: out.print_record(plain))
