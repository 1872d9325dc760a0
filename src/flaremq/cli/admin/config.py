"""``flaremq config``: options of running brokers and name servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import output as out
from flaremq.cli.admin.administration import administer, answer, name_server_option, place_options
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import output_option

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

_name_server_flag = click.option("--of-name-server", is_flag=True, help="Those of the name servers, not of brokers.")


@click.group(name="config", cls=LazyGroup)
def config() -> None:
    """Options of running servers: read them, change some."""


@config.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_name_server_flag
@place_options
@name_server_option
@output_option("jsonl", "json", "table")
def get(
    names: tuple[str, ...],
    of_name_server: bool,
    cluster: str | None,
    broker: str | None,
    name_servers: str,
    output: str | None,
) -> None:
    """The values of options, of all options if none is named."""
    from flaremq.errors import NotFoundError

    async def work(admin: AdminTool) -> dict[str, dict[str, str]]:
        if of_name_server:
            return await admin.name_server_config()
        masters = await admin.masters(cluster=cluster, broker=broker)
        return {name: await admin.broker_config(address) for name, address in masters.items()}

    servers = administer(name_servers, work)
    for server, values in servers.items():
        if unknown := [name for name in names if name not in values]:
            raise NotFoundError(_unknown(server, unknown[0], values))
    rows: list[dict[str, Any]] = [
        {"server": server, "option": name, "value": values[name]}
        for server, values in servers.items()
        for name in (names or values)
    ]
    out.print_rows(rows, output, title="options")


def _unknown(server: str, name: str, known: dict[str, str]) -> str:
    from flaremq.options import find_unknown_names

    return f"{server}: {find_unknown_names([name], known)[0]}"


@config.command(name="set")
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, required=True)
@_name_server_flag
@place_options
@name_server_option
@output_option("json", "jsonl", "table")
def set_(
    assignments: tuple[str, ...],
    of_name_server: bool,
    cluster: str | None,
    broker: str | None,
    name_servers: str,
    output: str | None,
) -> None:
    """Change options of running servers, all brokers unless some are named.

    A server accepts only what may change while it runs. Write it to broker.conf too if it shall outlast the next start.
    """
    from flaremq.options import parse_assignments

    values = parse_assignments(assignments, option="NAME=VALUE")

    async def work(admin: AdminTool) -> list[str]:
        if of_name_server:
            await admin.set_name_server_config(values)
            return admin.name_servers
        return await admin.set_broker_config(values, broker=broker, cluster=cluster)

    servers = administer(name_servers, work)
    settings = ", ".join(f"{name}={value}" for name, value in values.items())
    answer(f"{settings} on {', '.join(servers)}", {"servers": servers, "options": values}, output)
