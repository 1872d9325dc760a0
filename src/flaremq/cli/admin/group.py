"""``flaremq group``: consumer groups of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.administration import (
    administer,
    answer,
    name_server_option,
    place_options,
)
from flaremq.cli.admin.names import complete_group, is_own_group
from flaremq.cli.confirmation import confirmed, yes_option
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import output_option

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

_LIST_COLUMNS = out.headings(
    "group, consumeEnable=consume, consumeBroadcastEnable=broadcast, consumeMessageOrderly=orderly, "
    "retryQueueNums=retry queues, retryMaxTimes=retries, brokers"
)
group_argument = click.argument("group", metavar="GROUP", shell_complete=complete_group)


@click.group(
    name="group",
    cls=LazyGroup,
    elsewhere={
        "progress": ("flaremq.cli.admin.group_progress:progress", "How far a group is behind in each queue."),
        "connections": ("flaremq.cli.admin.group_progress:connections", "The consumers of a group that are connected."),
        "reset": ("flaremq.cli.admin.group_progress:reset", "Let a group go on from another time."),
    },
)
def group() -> None:
    """List, create, delete consumer groups, see how far they are, move them."""


@group.command(name="list")
@click.option("--cluster", metavar="NAME", help="Only the groups of this cluster.")
@click.option("--all", "show_all", is_flag=True, help="With those RocketMQ makes for itself.")
@name_server_option
@output_option("jsonl", "json", "table")
def list_(cluster: str | None, show_all: bool, name_servers: str, output: str | None) -> None:
    """The groups that brokers keep settings of."""

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for name, address in (await admin.masters(cluster=cluster)).items():
            for config in (await admin.group_configs(address)).values():
                if is_own_group(config.group_name) and not show_all:
                    continue
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

    out.print_rows(administer(name_servers, work), output, columns=_LIST_COLUMNS, title="groups")


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
def create(
    group: str, cluster: str | None, broker: str | None, name_servers: str, output: str | None, **settings: Any
) -> None:
    """Make a group on all brokers, or change one that exists; what is not named stays as it is."""
    changes = {name: value for name, value in settings.items() if value is not None}

    async def work(admin: AdminTool) -> tuple[list[str], dict[str, Any]]:
        import dataclasses

        from flaremq.protocol.bodies.group import SubscriptionGroupConfig

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
@yes_option
@place_options
@name_server_option
@output_option("json", "jsonl", "table")
def delete(
    group: str,
    keep_offsets: bool,
    yes: bool,
    cluster: str | None,
    broker: str | None,
    name_servers: str,
    output: str | None,
) -> int:
    """Delete a group with its retry and dead-letter topics.

    At a terminal it asks first; in a script it does not. Exit code 1 if the answer is no.
    """

    async def find(admin: AdminTool) -> None:
        from flaremq.errors import NotFoundError

        masters = await admin.masters(cluster=cluster, broker=broker)
        if not [address for address in masters.values() if group in await admin.group_configs(address)]:
            raise NotFoundError(f"group {group!r} does not exist on {', '.join(masters)}")

    async def work(admin: AdminTool) -> None:
        await admin.delete_group(group, cluster=cluster, broker=broker, remove_offset=not keep_offsets)

    administer(name_servers, find)
    lost = "its retries and its dead letters" + ("" if keep_offsets else ", and how far it is")
    if not confirmed(f"Delete group {group}, {lost}?", yes=yes, otherwise="nothing was deleted"):
        return failure.FAILED
    administer(name_servers, work)
    answer(f"group {group} is deleted", {"group": group, "deleted": True, "offsetsKept": keep_offsets}, output)
    return failure.DONE
