"""Parameters that commands share, so that they are spelled and explained once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

END_OF_TIME_MS = 2**63 - 1
LATEST_MS = -1  # the end of a queue, as brokers understand a point in time

# Where a context keeps the options of clients that were given: a command's and those before it.
GIVEN: Final = "flaremq.credentials"

if TYPE_CHECKING:
    from flaremq.storage.options import StoreOptions

F = TypeVar("F", bound=Callable[..., Any])


def output_option(*formats: str) -> Callable[[F], F]:
    """``-o``; the formats a command offers, the one for pipes first."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=None,
        help=f"Output format. Default: table on a terminal, {formats[0]} in a pipe.",
    )


body_option = click.option(
    "--body",
    type=click.Choice(["text", "base64", "none"]),
    default="text",
    show_default=True,
    help="How to show bodies; one that is not UTF-8 has no text.",
)
path_argument = click.argument("path", metavar="PATH", type=click.Path(exists=True, file_okay=False))


def store_options(command: F) -> F:
    """``-c broker.conf`` and ``--set key=value`` of commands that read a store."""
    return _options("A broker.conf with the options the store was written with.", "maxHashSlotNum=200")(command)


def server_options(file_name: str, example: str) -> Callable[[F], F]:
    """``-c FILE`` and ``--set key=value`` of commands that start servers."""
    return _options(f"A {file_name} to take options from.", example)


def _options(file_help: str, example: str) -> Callable[[F], F]:
    def add(command: F) -> F:
        command = click.option(
            "--set",
            "assignments",
            metavar="KEY=VALUE",
            multiple=True,
            callback=_tell_of_secrets,
            help=f"Set one option, by RocketMQ's name (repeatable), e.g. {example}.",
        )(command)
        return click.option(
            "-c",
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help=file_help,
        )(command)

    return add


def wants_tls() -> bool:
    """Whether ``--tls`` stands somewhere before the command, where it means those that start servers too."""
    return bool(click.get_current_context().meta.get(GIVEN, {}).get("tls"))


def _tell_of_secrets(_: click.Context, __: click.Parameter, assignments: tuple[str, ...]) -> tuple[str, ...]:
    """A secret on the command line is in the list of processes as long as the server runs."""
    if assignments:
        from flaremq.access.options import AccessOptions
        from flaremq.options import parse_assignments, rows
        from flaremq.secret_place import names_a_secret

        given = parse_assignments(assignments)
        for row in rows(AccessOptions):
            if row.secret and row.key in given and not names_a_secret(given[row.key]):
                click.echo(
                    f"warning: everybody on this machine can read {row.key} in the list of processes; write "
                    f"{row.key}=env:NAME or {row.key}=file:PATH, or put it into the file of options",
                    err=True,
                )
    return assignments


def read_properties(config_file: str | None, assignments: tuple[str, ...], store: str | None = None) -> dict[str, str]:
    """What the user set, by RocketMQ's names; unknown names, bad values and the log of another store are refused."""
    from flaremq.options import load_properties, parse_assignments

    assigned = parse_assignments(assignments)
    properties = {**(load_properties(config_file) if config_file is not None else {}), **assigned}
    read_options(properties)
    if store is not None:
        check_log_place(store, config_file, assigned)
    return properties


def check_log_place(root: str, config_file: str | None, assigned: dict[str, str]) -> None:
    """Refuse a file that names the log of another store than the one at ``root``."""
    if config_file is not None:
        from flaremq.options import load_properties
        from flaremq.storage.files import log_place

        of_file = load_properties(config_file)
        log_place.check_log_place(root, config_file=config_file, of_file=of_file, assigned=assigned)


def read_options(properties: dict[str, str]) -> StoreOptions:
    from flaremq.storage.options import StoreOptions

    return StoreOptions.from_properties(properties)


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, or ``LATEST_MS``; ``ValueError`` if it cannot be read.

    ``earliest``, ``latest``, or what ``flaremq.times`` reads: milliseconds, ``10m`` (ago), a date and time.
    """
    from flaremq.times import parse_moment

    ends = {"earliest": 0, "latest": LATEST_MS, "now": LATEST_MS}
    return ends[text.strip()] if text.strip() in ends else parse_moment(text, now_ms)


def time_value(_: click.Context, __: click.Parameter, value: str | int | None) -> int | None:
    """Callback of an option that takes a point in time."""
    return _time(value, LATEST_MS)


def moment_value(_: click.Context, __: click.Parameter, value: str | int | None) -> int | None:
    """The same where ``latest`` is a time like any other: now."""
    return _time(value, int(time.time() * 1000))


def _time(value: str | int | None, latest_ms: int) -> int | None:
    if value is None or isinstance(value, int):
        return value
    try:
        found = parse_time(value, int(time.time() * 1000))
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no time: give earliest, latest, 10m (ago), 2026-11-16T09:30 or milliseconds since 1970"
        ) from None
    return latest_ms if found == LATEST_MS else found


def duration_value(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Callback of an option that takes a length of time: ``1.5s``, ``10m``. In seconds."""
    from flaremq.times import UNITS_MS

    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)", value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no duration: give a number and its unit, as in 500ms, 10s, 5m, 2h")
    return float(match[1]) * UNITS_MS[match[2]] / 1000
