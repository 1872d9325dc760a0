"""``flaremq config``: options of running brokers and name servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.administration import administer, answer, name_server_option, place_options
from flaremq.cli.confirmation import confirmed, yes_option
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import output_option

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.options import OptionRow

# What a wrong value does that setting it back does not undo. At a terminal it is asked for.
_COSTLY: Final = {
    "fileReservedTime": "messages older than that many hours are deleted",
    "deleteWhen": "expired messages are deleted at these hours",
    "diskMaxUsedSpaceRatio": "above it expired messages are deleted at any hour",
    "diskSpaceCleanForciblyRatio": "above it messages are deleted before they expire",
    "cleanFileForciblyEnable": "it decides whether messages are deleted before they expire",
    "flushDiskType": "ASYNC_FLUSH acknowledges what a power cut may take",
    "readUnCommitted": "consumers may see what a power cut takes back",
    "brokerPermission": "without it clients cannot send or read",
    "autoCreateTopicEnable": "with it a misspelt topic is made",
    "disableConsumeIfConsumerReadSlowly": "groups that are far behind are switched off",
}
_name_server_flag = click.option("--of-name-server", is_flag=True, help="Those of the name servers, not of brokers.")


@click.group(name="config", cls=LazyGroup)
def config() -> None:
    """Options of running servers: read them, compare them with a file, change some."""


@config.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--live", is_flag=True, help="Only those that may be changed while the server runs.")
@_name_server_flag
@place_options
@name_server_option
@output_option("jsonl", "json", "table")
def get(
    names: tuple[str, ...],
    live: bool,
    of_name_server: bool,
    cluster: str | None,
    broker: str | None,
    name_servers: str,
    output: str | None,
) -> None:
    """The values of options, of all options if none is named."""
    from flaremq.errors import NotFoundError

    servers = _ask(name_servers, of_name_server, cluster, broker)
    for server, values in servers.items():
        if unknown := [name for name in names if name not in values]:
            raise NotFoundError(_unknown(server, unknown[0], values))
    rows: list[dict[str, Any]] = [
        {"server": server, "option": name, "value": values[name]}
        for server, values in servers.items()
        for name in (names or values)
    ]
    if live:
        known = _rows_of_servers(of_name_server=of_name_server)
        rows = [
            {**row, "allowed": known[row["option"]].allowed, "meaning": known[row["option"]].doc}
            for row in rows
            if row["option"] in known and known[row["option"]].live
        ]
    out.print_rows(rows, output, title="options")


def _ask(name_servers: str, of_name_server: bool, cluster: str | None, broker: str | None) -> dict[str, dict[str, str]]:
    """The options of each server, by its name or address."""

    async def work(admin: AdminTool) -> dict[str, dict[str, str]]:
        if of_name_server:
            return await admin.name_server_config()
        masters = await admin.masters(cluster=cluster, broker=broker)
        return {name: await admin.broker_config(address) for name, address in masters.items()}

    return administer(name_servers, work)


def _unknown(server: str, name: str, known: dict[str, str]) -> str:
    from flaremq.options import find_unknown_names

    return f"{server}: {find_unknown_names([name], known)[0]}"


@config.command()
@click.option(
    "-c",
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Compare with this file.",
)
@_name_server_flag
@place_options
@name_server_option
@output_option("jsonl", "json", "table")
def diff(
    file: str | None,
    of_name_server: bool,
    cluster: str | None,
    broker: str | None,
    name_servers: str,
    output: str | None,
) -> int:
    """What running servers have otherwise than a file says, and than the defaults where it says nothing.

    Exit code 1 if there is anything.
    """
    from flaremq.options import load_properties

    wanted = load_properties(file) if file is not None else {}
    known = _rows_of_servers(of_name_server=of_name_server)
    rows = [
        {"server": server, **row}
        for server, values in _ask(name_servers, of_name_server, cluster, broker).items()
        for row in _differences(values, wanted, known)
    ]
    columns = ("server", "option", "value", *(("file",) if file is not None else ()), "default")
    out.print_rows(rows, output, columns=columns, title=f"otherwise than {file or 'the defaults'}")
    return failure.FAILED if rows else failure.DONE


@config.command(name="set")
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, required=True)
@_name_server_flag
@yes_option
@place_options
@name_server_option
@output_option("json", "jsonl", "table")
def set_(
    assignments: tuple[str, ...],
    of_name_server: bool,
    yes: bool,
    cluster: str | None,
    broker: str | None,
    name_servers: str,
    output: str | None,
) -> int:
    """Change options of running servers, all brokers unless some are named; the servers write them to their files.

    A server accepts only what may change while it runs: config get --live. At a terminal it asks before an option that
    can cost messages.
    """
    from flaremq.options import parse_assignments

    values = parse_assignments(assignments, option="NAME=VALUE")
    settings = ", ".join(f"{name}={value}" for name, value in values.items())
    if costly := [f"{name}: {_COSTLY[name]}" for name in values if name in _COSTLY and not of_name_server]:
        question = f"Set {settings} on {broker or cluster or 'all brokers'} ({'; '.join(costly)})?"
        if not confirmed(question, yes=yes, otherwise="nothing was changed"):
            return failure.FAILED

    async def work(admin: AdminTool) -> dict[str, str]:
        if of_name_server:
            return await admin.change_name_servers(values)
        return await admin.change_brokers(values, broker=broker, cluster=cluster)

    remarks = administer(name_servers, work)
    for server, remark in remarks.items():
        if remark:
            out.note(f"flaremq: {server}: {remark}")
    answer(f"{settings} on {', '.join(remarks)}", {"servers": list(remarks), "options": values}, output)
    return failure.DONE


def _rows_of_servers(*, of_name_server: bool) -> dict[str, OptionRow]:
    """The rows of all options of a server of ours, by name."""
    from flaremq.access.options import AccessOptions
    from flaremq.options import rows_by_key
    from flaremq.remoting.options import RemotingOptions

    layers: list[type[Any]] = [AccessOptions, RemotingOptions]
    if of_name_server:
        from flaremq.namesrv.options import NamesrvOptions

        layers.append(NamesrvOptions)
    else:
        from flaremq.broker.options import BrokerOptions
        from flaremq.storage.options import StoreOptions

        layers += [StoreOptions, BrokerOptions]
    return {key: row for layer in layers for key, row in rows_by_key(layer).items()}


def _differences(
    values: Mapping[str, str], wanted: Mapping[str, str], rows: Mapping[str, OptionRow]
) -> list[dict[str, Any]]:
    """What a server has otherwise than ``wanted`` or, where that says nothing, than the default.

    Of a secret a server tells only whether it has one. Options that we do not know, of a Java server, have no default
    that we could know.
    """
    from flaremq.options import MASK

    found: list[dict[str, Any]] = []
    for name in sorted(values.keys() | wanted.keys()):
        row, value, text = rows.get(name), values.get(name), wanted.get(name)
        expected = text if text is not None or row is None else row.shown(row.default)
        if expected is None or value is None or _same(row, value, expected):
            continue
        default = None if row is None else row.shown(row.default)
        shown = MASK if text is not None and row is not None and row.secret else text
        found.append({"option": name, "value": value, "file": shown, "default": default})
    return found


def _same(row: OptionRow | None, value: str, expected: str) -> bool:
    if row is None:
        return value.strip() == expected.strip()
    if row.secret:
        return bool(value) == bool(expected)
    from flaremq.errors import InvalidArgumentError

    try:
        return row.parse(value) == row.parse(expected)
    except InvalidArgumentError:
        return value.strip() == expected.strip()
