"""``flaremq cluster``: the brokers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.administration import administer, name_server_option
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import output_option
from flaremq.digits import whole_number

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

_LIST_COLUMNS = out.headings(
    "cluster, broker, brokerId=id, address, version, putTps=put/s, getTps=get/s, diskUsed=disk, uptimeHours=hours"
)


@click.group(name="cluster", cls=LazyGroup)
def cluster() -> None:
    """The brokers of a cluster and how they are."""


async def broker_addresses(admin: AdminTool, wanted: str | None = None) -> list[tuple[str, str, int, str]]:
    """Cluster, broker name, broker id and address of every broker, slaves too; of one cluster or all."""
    info = await admin.cluster_info()
    clusters = info.cluster_addr_table
    if wanted is not None and wanted not in clusters:
        from flaremq.errors import NotFoundError

        raise NotFoundError(f"cluster {wanted!r} does not exist; there is: {', '.join(sorted(clusters)) or 'none'}")
    return [
        (cluster_name, name, number, address)
        for cluster_name in ([wanted] if wanted is not None else sorted(clusters))
        for name in sorted(clusters[cluster_name])
        if name in info.broker_addr_table
        for number, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


async def _status_rows(admin: AdminTool, wanted: str | None) -> list[dict[str, Any]]:
    """A row a broker with its whole status under ``status``; None there if it does not answer."""
    from flaremq.errors import FlareMQError

    rows = []
    for cluster_name, name, number, address in await broker_addresses(admin, wanted):
        row: dict[str, Any] = {"cluster": cluster_name, "broker": name, "brokerId": number, "address": address}
        try:
            row["status"] = await admin.broker_status(address)
        except FlareMQError as error:
            row |= {"status": None, "error": str(error)}
        rows.append(row)
    return rows


def _first_number(text: str | None) -> float | None:
    """The first of some rates, that of the last seconds."""
    try:
        return round(float((text or "").split()[0]), 2)
    except (IndexError, ValueError):
        return None


def _summary(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    status = row.pop("status") or {}
    booted = whole_number(status.get("bootTimestamp"))
    return row | {
        "version": status.get("brokerVersionDesc"),
        "reachable": bool(status),
        "putTps": _first_number(status.get("putTps")),
        "getTps": _first_number(status.get("getTransferredTps") or status.get("getTransferedTps")),
        "diskUsed": _first_number(status.get("commitLogDiskRatio")),
        "uptimeHours": None if booted is None else round((now_ms - booted) / 3_600_000, 2),
    }


def _report_silent(rows: list[dict[str, Any]]) -> int:
    """Name the brokers that did not answer; the exit code."""
    silent = [row for row in rows if "error" in row]
    for row in silent:
        out.note(f"flaremq: broker {row['broker']} at {row['address']} does not answer: {row['error']}")
    return failure.FAILED if silent else failure.DONE


@cluster.command(name="list")
@click.argument("name", metavar="[CLUSTER]", required=False)
@name_server_option
@output_option("jsonl", "json", "table")
def list_(name: str | None, name_servers: str, output: str | None) -> int:
    """All brokers with their rates. Exit code 1 if one of them does not answer."""
    import time

    now_ms = int(time.time() * 1000)
    rows = [_summary(row, now_ms) for row in administer(name_servers, lambda admin: _status_rows(admin, name))]
    out.print_rows(rows, output, columns=_LIST_COLUMNS, title="brokers")
    return _report_silent(rows)


@cluster.command()
@click.argument("name", metavar="[CLUSTER]", required=False)
@name_server_option
@output_option("json", "jsonl", "table")
def status(name: str | None, name_servers: str, output: str | None) -> int:
    """Who is master, who follows and how far behind, and everything the brokers tell about themselves.

    Exit code 1 if one of them does not answer.
    """
    import time

    from flaremq.cli.admin.replication_status import COLUMNS, Group, collect, rows_of

    async def ask(admin: AdminTool) -> list[Group]:
        return await collect(admin, await broker_addresses(admin, name))

    groups = administer(name_servers, ask)
    now_ms = int(time.time() * 1000)
    members = {member.address: member for group in groups for member in group.members}
    rows = [row for group in groups for row in rows_of(group, now_ms)]
    for row in rows:
        member = members.get(row["address"])
        row["status"] = None if member is None else member.status
        if member is not None and member.error:
            row["error"] = member.error
    chosen = out.chosen(output, in_pipe=out.JSON)
    if chosen == out.TABLE:
        out.print_rows(rows, chosen, columns=COLUMNS, title="replication")
        for row in rows:
            title = f"{row['cluster']} {row['broker']} ({row['brokerId']}) {row['address']}"
            out.print_record(row["status"] or {"error": row["alarm"]}, title=title)
    else:
        out.print_rows(rows, chosen)
    return _report_silent(rows)
