"""``flaremq topic``: topics of a cluster."""

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
    topic_argument,
)
from flaremq.cli.admin.names import kind_of, read_topics
from flaremq.cli.confirmation import confirmed, yes_option
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import output_option

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

PERMISSIONS = {"rw": 6, "r": 4, "w": 2, "none": 0}
_KINDS = ("user", "retry", "dlq", "system")
_STATUS_COLUMNS = out.headings(
    "broker, queueId=queue, minOffset=min, maxOffset=max, messages, lastUpdateTimestamp=last written"
)
_ROUTE_COLUMNS = out.headings(
    "cluster, broker, addresses, readQueueNums=read queues, writeQueueNums=write queues, perm"
)


@click.group(name="topic", cls=LazyGroup)
def topic() -> None:
    """List, create, delete topics of a cluster, and look at them."""


@topic.command(name="list")
@click.option("--cluster", metavar="NAME", help="Only the topics of this cluster.")
@click.option("--kind", type=click.Choice(_KINDS), help="Only topics of this kind.")
@click.option("--all", "all_kinds", is_flag=True, help="Also the topics of RocketMQ itself.")
@name_server_option
@output_option("jsonl", "json", "table")
def list_(cluster: str | None, kind: str | None, all_kinds: bool, name_servers: str, output: str | None) -> None:
    """All topics but those of RocketMQ itself; the topics of retries and of dead letters included."""
    topics, own_names = read_topics(name_servers, cluster)
    rows = [{"topic": name, "kind": kind_of(name, own_names)} for name in topics]
    shown = [row for row in rows if (kind is None or row["kind"] == kind)]
    if kind is None and not all_kinds:
        shown = [row for row in rows if row["kind"] != "system"]
    chosen = out.chosen(output, in_pipe=out.JSONL)
    out.print_rows(shown, chosen, columns=("topic", "kind"), title="topics")
    if chosen == out.TABLE and kind is None and len(shown) < len(rows):
        out.note(f"{len(rows) - len(shown)} topics of RocketMQ itself are not shown; --all shows them")


@topic.command()
@topic_argument
@click.option("--queues", type=click.IntRange(min=1), help="Queues on each broker.  [default: 8 for a new topic]")
@click.option("--read-queues", type=click.IntRange(min=1), help="Queues that can be read, if not all.")
@click.option("--write-queues", type=click.IntRange(min=1), help="Queues that can be written, if not all.")
@click.option(
    "--perm", type=click.Choice(list(PERMISSIONS)), help="What clients may do.  [default: rw for a new topic]"
)
@click.option("--order/--no-order", default=None, help="Keep the order of queues even while a broker is away.")
@click.option(
    "--attribute", "attributes", metavar="KEY=VALUE", multiple=True, help="As in message.type=FIFO (repeatable)."
)
@place_options
@name_server_option
@output_option("json", "jsonl", "table")
def create(
    topic: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: str | None,
    order: bool | None,
    attributes: tuple[str, ...],
    cluster: str | None,
    broker: str | None,
    name_servers: str,
    output: str | None,
) -> None:
    """Make a topic on all brokers, or change one that exists; what is not named stays as it is."""
    from flaremq.options import parse_assignments

    settings: dict[str, Any] = {"attributes": parse_assignments(attributes, option="--attribute")}

    async def work(admin: AdminTool) -> list[str]:
        known = await _known_settings(admin, topic, cluster, broker)
        settings["read_queues"] = read_queues or queues or known["read_queues"]
        settings["write_queues"] = write_queues or queues or known["write_queues"]
        settings["perm"] = known["perm"] if perm is None else PERMISSIONS[perm]
        settings["order"] = known["order"] if order is None else order
        return await admin.create_topic(topic, cluster=cluster, broker=broker, **settings)

    brokers = administer(name_servers, work)
    record = {
        "topic": topic,
        "brokers": brokers,
        "readQueueNums": settings["read_queues"],
        "writeQueueNums": settings["write_queues"],
        "perm": settings["perm"],
        "order": settings["order"],
        "attributes": settings["attributes"],
    }
    count = record["writeQueueNums"]
    queues_text = "1 queue" if count == 1 else f"{count} queues"
    answer(f"topic {topic} has {queues_text} on {', '.join(brokers)}", record, output)


async def _known_settings(admin: AdminTool, topic: str, cluster: str | None, broker: str | None) -> dict[str, Any]:
    """The settings a topic has on the first broker that knows it, or those of a new one."""
    from flaremq.errors import FlareMQError

    for name in await admin.masters(cluster=cluster, broker=broker):
        try:
            config = await admin.topic_config(topic, name)
        except FlareMQError:
            continue  # not there yet
        return {
            "read_queues": config.read_queue_nums,
            "write_queues": config.write_queue_nums,
            "perm": config.perm,
            "order": config.order,
        }
    return {"read_queues": 8, "write_queues": 8, "perm": PERMISSIONS["rw"], "order": False}


@topic.command()
@topic_argument
@click.option("--cluster", metavar="NAME", help="Only on the brokers of this cluster.")
@yes_option
@name_server_option
@output_option("json", "jsonl", "table")
def delete(topic: str, cluster: str | None, yes: bool, name_servers: str, output: str | None) -> int:
    """Delete a topic on all brokers and name servers; its messages cannot be read any more.

    At a terminal it asks first; in a script it does not. Exit code 1 if the answer is no.
    """

    async def find(admin: AdminTool) -> None:
        await admin.topic_route(topic)  # a name that is not there is a mistake, which brokers do not report

    async def work(admin: AdminTool) -> None:
        await admin.delete_topic(topic, cluster=cluster)

    administer(name_servers, find)
    if not confirmed(f"Delete topic {topic} and all its messages?", yes=yes, otherwise="nothing was deleted"):
        return failure.FAILED
    administer(name_servers, work)
    answer(f"topic {topic} is deleted", {"topic": topic, "cluster": cluster, "deleted": True}, output)
    return failure.DONE


@topic.command()
@topic_argument
@name_server_option
@output_option("jsonl", "json", "table")
def status(topic: str, name_servers: str, output: str | None) -> None:
    """Both ends of each queue, and when it was last written to."""

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        return [
            {
                "broker": queue.broker_name,
                "queueId": queue.queue_id,
                "minOffset": offset.min_offset,
                "maxOffset": offset.max_offset,
                "messages": offset.max_offset - offset.min_offset,
                "lastUpdateTimestamp": offset.last_update_timestamp,
            }
            for queue, offset in (await admin.topic_status(topic)).items()
        ]

    rows = administer(name_servers, work)
    out.print_rows(rows, output, columns=_STATUS_COLUMNS, times=("lastUpdateTimestamp",), title=f"topic {topic}")


@topic.command()
@topic_argument
@name_server_option
@output_option("jsonl", "json", "table")
def route(topic: str, name_servers: str, output: str | None) -> None:
    """The brokers of a topic, their addresses by broker id, and how many queues each has."""

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        data = await admin.topic_route(topic)
        queues = {entry.broker_name: entry for entry in data.queue_datas}
        return [
            {
                "cluster": broker.cluster,
                "broker": broker.broker_name,
                "addresses": {str(number): address for number, address in sorted(broker.broker_addrs.items())},
                "readQueueNums": queues[broker.broker_name].read_queue_nums,
                "writeQueueNums": queues[broker.broker_name].write_queue_nums,
                "perm": queues[broker.broker_name].perm,
            }
            for broker in sorted(data.broker_datas, key=lambda broker: broker.broker_name)
            if broker.broker_name in queues
        ]

    out.print_rows(administer(name_servers, work), output, columns=_ROUTE_COLUMNS, title=f"topic {topic}")
