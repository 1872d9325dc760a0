"""``flaremq group``: consumer groups of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flaremq.cli.administration import NounGroup, administer, answer, name_server_option, place_options, with_times
from flaremq.cli.parameters import debug_option, output_option
from flaremq.cli.times import time_value

if TYPE_CHECKING:
    from flaremq.cli.admin_tool import AdminTool
    from flaremq.protocol.bodies import ConsumerConnection, MessageQueue

group_argument = click.argument("group", metavar="GROUP")


@click.group(name="group", cls=NounGroup)
@debug_option
def group() -> None:
    """List, create, delete consumer groups, see how far they are, move them."""


@group.command(name="list")
@click.option("--cluster", metavar="NAME", help="Only the groups of this cluster.")
@name_server_option
@output_option("jsonl", "json", "table")
@debug_option
def list_(cluster: str | None, name_servers: str, output: str | None) -> None:
    """All groups that brokers keep settings of."""
    from flaremq.cli import output as out

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for name, address in (await admin.masters(cluster=cluster)).items():
            for config in (await admin.group_configs(address)).values():
                row = {
                    "group": config.group_name,
                    "consumeEnable": config.consume_enable,
                    "consumeBroadcastEnable": config.consume_broadcast_enable,
                    "consumeMessageOrderly": config.consume_message_orderly,
                    "retryQueueNums": config.retry_queue_nums,
                    "retryMaxTimes": config.retry_max_times,
                    "brokers": [],
                }
                rows.setdefault(config.group_name, row)["brokers"].append(name)
        return [rows[name] for name in sorted(rows)]

    out.print_rows(administer(name_servers, work), out.chosen(output, in_pipe=out.JSONL), title="groups")


@group.command()
@group_argument
@click.option(
    "--retry-max", "retry_max_times", type=click.IntRange(min=-1), help="Deliveries after the first.  [new: 16]"
)
@click.option("--retry-queues", "retry_queue_nums", type=click.IntRange(min=0), help="Queues for retries.  [new: 1]")
@click.option("--consume/--no-consume", "consume_enable", default=None, help="Whether it may consume.  [new: yes]")
@click.option(
    "--broadcast/--no-broadcast",
    "consume_broadcast_enable",
    default=None,
    help="Whether each consumer may get everything.  [new: yes]",
)
@click.option(
    "--from-min/--no-from-min",
    "consume_from_min_enable",
    default=None,
    help="Whether it may begin at the oldest message.  [new: yes]",
)
@click.option(
    "--orderly/--no-orderly",
    "consume_message_orderly",
    default=None,
    help="Whether POP consumers keep the order.  [new: no]",
)
@place_options
@name_server_option
@output_option("json", "jsonl", "table")
@debug_option
def create(
    group: str, cluster: str | None, broker: str | None, name_servers: str, output: str | None, **settings: Any
) -> None:
    """Make a group on all brokers, or change one that exists; what is not named stays as it is."""
    changes = {name: value for name, value in settings.items() if value is not None}

    async def work(admin: AdminTool) -> tuple[list[str], dict[str, Any]]:
        import dataclasses

        from flaremq.protocol.bodies import SubscriptionGroupConfig

        names = []
        config = SubscriptionGroupConfig(group_name=group)
        for name, address in (await admin.masters(cluster=cluster, broker=broker)).items():
            known = (await admin.group_configs(address)).get(group) or SubscriptionGroupConfig(group_name=group)
            config = dataclasses.replace(known, **changes)
            await admin.create_group(group, config=config, broker=address)
            names.append(name)
        return names, config.to_value()

    brokers, config = administer(name_servers, work)
    answer(f"group {group} is set on {', '.join(brokers)}", {"group": group, "brokers": brokers, **config}, output)


@group.command()
@group_argument
@click.option("--keep-offsets", is_flag=True, help="Let a group of the same name go on where this one ended.")
@place_options
@name_server_option
@output_option("json", "jsonl", "table")
@debug_option
def delete(
    group: str, keep_offsets: bool, cluster: str | None, broker: str | None, name_servers: str, output: str | None
) -> None:
    """Delete a group with its retry and dead-letter topics."""

    async def work(admin: AdminTool) -> None:
        from flaremq.errors import NotFoundError

        masters = await admin.masters(cluster=cluster, broker=broker)
        if not [address for address in masters.values() if group in await admin.group_configs(address)]:
            raise NotFoundError(f"group {group!r} does not exist on {', '.join(masters)}")
        await admin.delete_group(group, cluster=cluster, broker=broker, remove_offset=not keep_offsets)

    administer(name_servers, work)
    answer(f"group {group} is deleted", {"group": group, "deleted": True, "offsetsKept": keep_offsets}, output)


@group.command()
@click.argument("group", metavar="[GROUP]", required=False)
@click.option("--topic", metavar="TOPIC", help="Only this topic.")
@name_server_option
@output_option("jsonl", "json", "table")
@debug_option
def progress(group: str | None, topic: str | None, name_servers: str, output: str | None) -> None:
    """How far a group is behind in each queue; without a group, how far each group is."""
    from flaremq.cli import output as out

    if group is None:
        if topic is not None:
            raise click.UsageError("--topic needs a group.")
        rows = administer(name_servers, group_overview)
        out.print_rows(rows, out.chosen(output, in_pipe=out.JSONL), title="groups")
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
            for queue, entry in (await admin.group_progress(name, topic=topic)).offset_table.items()
            if topic is None or queue.topic == topic
        ]

    chosen = out.chosen(output, in_pipe=out.JSONL)
    queues = administer(name_servers, work)
    out.print_rows(with_times(queues, chosen, "lastTimestamp"), chosen, title=f"group {group}")
    if chosen == out.TABLE:
        click.echo(f"lag {sum(row['lag'] for row in queues)}, in flight {sum(row['inflight'] for row in queues)}")


async def group_overview(admin: AdminTool) -> list[dict[str, Any]]:
    return await group_rows(admin, await admin.list_groups())


async def group_rows(admin: AdminTool, groups: list[str]) -> list[dict[str, Any]]:
    """One row a group: who is in it and how far it is behind."""
    from flaremq.cli.versions import version_text
    from flaremq.client.errors import ReplyError
    from flaremq.errors import NotFoundError

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


@group.command()
@group_argument
@name_server_option
@output_option("json", "jsonl", "table")
@debug_option
def connections(group: str, name_servers: str, output: str | None) -> None:
    """The consumers of a group that are connected, and what they subscribe to.

    Exit code 1 if there is none.
    """
    from flaremq.cli import output as out

    found = administer(name_servers, lambda admin: admin.group_connections(group))
    clients, subscriptions = _connection_rows(found)
    chosen = out.chosen(output, in_pipe=out.JSON)
    record = {
        "group": group,
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
        "connections": clients,
        "subscriptions": subscriptions,
    }
    if chosen == out.JSON:
        out.print_json(record)
    elif chosen == out.JSONL:
        out.print_rows([record], out.JSONL)
    else:
        out.print_rows(clients, out.TABLE, title=f"group {group}")
        out.print_rows(subscriptions, out.TABLE, title="\nsubscriptions")
        click.echo(f"\n{found.consume_type} {found.message_model} {found.consume_from_where}")


def _connection_rows(found: ConsumerConnection) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from flaremq.cli.versions import version_text

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


@group.command()
@group_argument
@click.option("--topic", metavar="TOPIC", required=True, help="The topic to move in.")
@click.option(
    "--to",
    "timestamp",
    callback=time_value,
    metavar="TIME",
    required=True,
    help="earliest, latest, 10m (ago), an ISO date and time, or milliseconds since 1970.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would become of each queue.")
@name_server_option
@output_option("jsonl", "json", "table")
@debug_option
def reset(group: str, topic: str, timestamp: int, dry_run: bool, name_servers: str, output: str | None) -> None:
    """Let a group go on from another time, whether its consumers are connected or not."""
    from flaremq.cli import output as out

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        before = {queue: await admin.committed(group, queue) for queue in await admin.queues(topic)}
        if dry_run:
            after = {queue: await _offset_at(admin, queue, timestamp) for queue in before}
        else:
            after = await admin.reset_offset(group, topic, timestamp)
        return [
            {"broker": queue.broker_name, "queueId": queue.queue_id, "before": before.get(queue), "after": offset}
            for queue, offset in sorted(after.items())
        ]

    rows = administer(name_servers, work)
    title = f"group {group} would go on in {topic} at" if dry_run else f"group {group} goes on in {topic} at"
    out.print_rows(rows, out.chosen(output, in_pipe=out.JSONL), title=title)


async def _offset_at(admin: AdminTool, queue: MessageQueue, timestamp_ms: int) -> int:
    return await (admin.max_offset(queue) if timestamp_ms < 0 else admin.offset_by_time(queue, timestamp_ms))
