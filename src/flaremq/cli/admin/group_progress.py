"""``flaremq group progress``, ``connections`` and ``reset``: how far groups are, who is in them, moving them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.administration import administer, name_server_option
from flaremq.cli.admin.group import group_argument
from flaremq.cli.admin.names import complete_group, complete_topic, is_own_group
from flaremq.cli.confirmation import asks, confirmed, yes_option
from flaremq.cli.parameters import output_option, time_value

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.protocol.bodies.client import ConsumerConnection
    from flaremq.protocol.bodies.queue import MessageQueue

_OVERVIEW = out.headings("group, clients, version, consumeType=type, messageModel=model, tps, lag")
_PROGRESS_COLUMNS = out.headings(
    "topic, broker, queueId=queue, brokerOffset=end, consumerOffset=at, lag, inflight=in flight, "
    "lastTimestamp=last message"
)


@click.command()
@click.argument("group", metavar="[GROUP]", required=False, shell_complete=complete_group)
@click.option("--topic", metavar="TOPIC", help="Only this topic.", shell_complete=complete_topic)
@name_server_option
@output_option("jsonl", "json", "table")
def progress(group: str | None, topic: str | None, name_servers: str, output: str | None) -> None:
    """How far a group is behind in each queue; without a group, how far each group is."""
    if group is None:
        if topic is not None:
            raise click.UsageError("--topic needs a group.")
        out.print_rows(administer(name_servers, group_overview), output, columns=_OVERVIEW, title="groups")
        return
    name = group

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        return [
            {
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queueId": queue.queue_id,
                "brokerOffset": entry.broker_offset,
                "consumerOffset": entry.consumer_offset,
                "lag": entry.broker_offset - entry.consumer_offset,
                "inflight": max(entry.pull_offset - entry.consumer_offset, 0),
                "lastTimestamp": entry.last_timestamp,
            }
            for queue, entry in (await admin.known_progress(name, topic)).offset_table.items()
            if topic is None or queue.topic == topic
        ]

    queues = administer(name_servers, work)
    out.print_rows(queues, output, columns=_PROGRESS_COLUMNS, times=("lastTimestamp",), title=f"group {group}")
    if out.chosen(output, in_pipe=out.JSONL) == out.TABLE:
        click.echo(f"lag {sum(row['lag'] for row in queues)}, in flight {sum(row['inflight'] for row in queues)}")


async def group_overview(admin: AdminTool) -> list[dict[str, Any]]:
    return await group_rows(admin, [name for name in await admin.list_groups() if not is_own_group(name)])


async def group_rows(admin: AdminTool, groups: list[str]) -> list[dict[str, Any]]:
    """One row a group: who is in it and how far it is behind."""
    from flaremq.cli.admin.versions import version_text
    from flaremq.errors import NotFoundError, ReplyError

    rows = []
    for name in groups:
        row: dict[str, Any] = {"group": name, "clients": 0, "version": None, "consumeType": None, "messageModel": None}
        try:
            found = await admin.group_connections(name)
        except (ReplyError, NotFoundError):
            pass  # nobody is connected
        else:
            row["clients"] = len(found.connection_set)
            row["version"] = version_text(min((client.version for client in found.connection_set), default=0))
            row["consumeType"], row["messageModel"] = found.consume_type, found.message_model
        try:
            stats = await admin.group_progress(name)
        except (ReplyError, NotFoundError):
            row |= {"tps": 0.0, "lag": 0}
        else:
            lag = sum(entry.broker_offset - entry.consumer_offset for entry in stats.offset_table.values())
            row |= {"tps": round(stats.consume_tps, 2), "lag": lag}
        rows.append(row)
    return rows


@click.command()
@group_argument
@name_server_option
@output_option("json", "jsonl", "table")
def connections(group: str, name_servers: str, output: str | None) -> None:
    """The consumers of a group that are connected, and what they subscribe to.

    Exit code 1 if there is none.
    """
    found = administer(name_servers, lambda admin: admin.group_connections(group))
    clients, subscriptions = _connection_rows(found)
    record = {
        "group": group,
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
        "connections": clients,
        "subscriptions": subscriptions,
    }

    def show() -> None:
        out.print_rows(clients, out.TABLE, title=f"group {group}")
        out.print_rows(subscriptions, out.TABLE, title="\nsubscriptions")
        out.echo(f"\n{found.consume_type} {found.message_model} {found.consume_from_where}")

    out.print_object(record, output, show)


def _connection_rows(found: ConsumerConnection) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from flaremq.cli.admin.versions import version_text

    clients = [
        {
            "clientId": client.client_id,
            "clientAddr": client.client_addr,
            "language": client.language,
            "version": version_text(client.version),
        }
        for client in sorted(found.connection_set, key=lambda client: client.client_id)
    ]
    subscriptions = [
        {"topic": name, "expressionType": data.expression_type, "expression": data.sub_string}
        for name, data in sorted(found.subscription_table.items())
    ]
    return clients, subscriptions


@click.command()
@group_argument
@click.option("--topic", metavar="TOPIC", required=True, help="The topic to move in.", shell_complete=complete_topic)
@click.option(
    "--to",
    "timestamp",
    callback=time_value,
    metavar="TIME",
    required=True,
    help="earliest, latest, 10m (ago), an ISO date and time, or milliseconds since 1970.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would become of each queue.")
@yes_option
@name_server_option
@output_option("jsonl", "json", "table")
def reset(
    group: str, topic: str, timestamp: int, dry_run: bool, yes: bool, name_servers: str, output: str | None
) -> int:
    """Let a group go on from another time, whether its consumers are connected or not.

    At a terminal it says how many messages come again or are skipped, and asks first. Exit code 1 if the answer is no.
    """

    async def committed(admin: AdminTool) -> dict[MessageQueue, int | None]:
        return {queue: await admin.committed(group, queue) for queue in await admin.queues(topic)}

    async def preview(admin: AdminTool) -> list[dict[str, Any]]:
        before = await committed(admin)
        return _moves(before, {queue: await _offset_at(admin, queue, timestamp) for queue in before})

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        return _moves(await committed(admin), await admin.reset_offset(group, topic, timestamp))

    if dry_run:
        out.print_rows(administer(name_servers, preview), output, title=f"group {group} would go on in {topic} at")
        return failure.DONE
    if asks(yes) and not confirmed(
        f"Move group {group} in {topic}: {_effect(administer(name_servers, preview))}?",
        yes=yes,
        otherwise="nothing was moved",
    ):
        return failure.FAILED
    out.print_rows(administer(name_servers, work), output, title=f"group {group} goes on in {topic} at")
    return failure.DONE


def _moves(before: Mapping[MessageQueue, int | None], after: Mapping[MessageQueue, int]) -> list[dict[str, Any]]:
    return [
        {"broker": queue.broker_name, "queueId": queue.queue_id, "before": before.get(queue), "after": offset}
        for queue, offset in sorted(after.items())
    ]


def _effect(moves: list[dict[str, Any]]) -> str:
    """What a move means, of queues that the group has read from."""
    steps = [row["after"] - row["before"] for row in moves if row["before"] is not None]
    again, skipped = -sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    return f"{again} messages come again, {skipped} are skipped"


async def _offset_at(admin: AdminTool, queue: MessageQueue, timestamp_ms: int) -> int:
    return await (admin.max_offset(queue) if timestamp_ms < 0 else admin.offset_by_time(queue, timestamp_ms))
