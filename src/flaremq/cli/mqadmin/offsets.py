"""Progress of consumer groups in RocketMQ's own spelling."""

from __future__ import annotations

import time

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.admin.group_progress import group_rows
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.output import echo, local_text
from flaremq.errors import NotFoundError, ReplyError
from flaremq.message.topics import RETRY_PREFIX, is_retry_topic
from flaremq.protocol.bodies.queue import MessageQueue


async def consumer_progress(admin: AdminTool, args: Arguments) -> None:
    group = args.maybe("groupName")
    if group is None:
        await _all_groups(admin)
        return
    topic = args.maybe("topicName")
    stats = await admin.known_progress(group, topic)
    owners = await _owners(admin, group) if args.truth("showClientIP") else None
    places = "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  "
    header = places.format("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
    echo(header + ("" if owners is None else f"{'#Client IP':<20} ") + f"{'#Diff':<20} {'#Inflight':<20}#LastTime")
    total = inflight_total = 0
    for queue, entry in stats.offset_table.items():
        if topic is not None and queue.topic != topic:
            continue
        diff, inflight = (
            entry.broker_offset - entry.consumer_offset,
            max(entry.pull_offset - entry.consumer_offset, 0),
        )
        total += diff
        inflight_total += inflight
        offsets = (entry.broker_offset, entry.consumer_offset)
        line = places.format(queue.topic, queue.broker_name, queue.queue_id, *offsets)
        owner = "" if owners is None else f"{owners.get(queue, 'N/A'):<20} "
        echo(f"{line}{owner}{diff:<20} {inflight:<20} {_last_time(entry.last_timestamp, 'N/A')}")
    echo(f"\nConsume TPS: {stats.consume_tps:.2f}")
    echo(f"Consume Diff Total: {total}")
    echo(f"Consume Inflight Total: {inflight_total}")


def _last_time(milliseconds: int, nothing: str) -> str:
    return local_text(milliseconds) or nothing


async def _owners(admin: AdminTool, group: str) -> dict[MessageQueue, str]:
    """The address of the client that has each queue."""
    owners: dict[MessageQueue, str] = {}
    try:
        connections = (await admin.group_connections(group)).connection_set
    except (ReplyError, NotFoundError):
        return owners  # nobody is connected
    for client in connections:
        try:
            info = await admin.consumer_running_info(group, client.client_id)
        except ReplyError:
            continue  # a client without running info
        owners |= dict.fromkeys(info.mq_table, client.client_id.partition("@")[0])
    return owners


async def _all_groups(admin: AdminTool) -> None:
    layout = "{:<64}  {:<6}  {:<24} {:<5}  {:<14}  {:<7}  {}"
    echo(layout.format("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total"))
    groups = [topic.removeprefix(RETRY_PREFIX) for topic in await admin.list_topics() if is_retry_topic(topic)]
    types = {"CONSUME_PASSIVELY": "PUSH", "CONSUME_ACTIVELY": "PULL", "CONSUME_POP": "POP"}
    for row in await group_rows(admin, groups):
        kind = types.get(row["consumeType"] or "", "")
        who = (row["group"], row["clients"], row["version"] or "OFFLINE", kind, row["messageModel"] or "")
        echo(layout.format(*who, int(row["tps"]), row["lag"]))


async def broker_consume_stats(admin: AdminTool, args: Arguments) -> None:
    layout = "{:<64}  {:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20}  {}"
    offsets = ("#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
    echo(layout.format("#Topic", "#Group", "#Broker Name", "#QID", *offsets))
    level = args.integer("level")
    found = await admin.broker_consume_stats(args.text("brokerAddr"), orderly=args.truth("order"))
    for groups in found.consume_stats_list:
        for group, tables in groups.items():
            for queue, entry in sorted(item for stats in tables for item in stats.offset_table.items()):
                diff = entry.broker_offset - entry.consumer_offset
                # A queue nothing was consumed of has no such time, and the original leaves it out.
                if diff >= level and entry.last_timestamp > 0:
                    place = (queue.topic, group, queue.broker_name, queue.queue_id)
                    last = _last_time(entry.last_timestamp, "-")
                    echo(layout.format(*place, entry.broker_offset, entry.consumer_offset, diff, last))
    echo(f"\nDiff Total: {found.total_diff}")


async def reset_offset_by_time(admin: AdminTool, args: Arguments) -> None:
    group, topic, text = args.text("group"), args.text("topic"), args.text("timestamp")
    timestamp = args.time("timestamp", int(time.time() * 1000))
    assert timestamp is not None
    what = f"group[{group}], topic[{topic}]"
    when = f"timestamp(string)[{text}], timestamp(long)[{timestamp}]"
    if args.maybe("queue") is not None:
        address = args.maybe("broker")
        if address is None:
            args.refuse("--queue needs --broker, the address of the broker it is on.")
        queue_id = args.integer("queue")
        offset = args.integer("offset") if args.maybe("offset") is not None else None
        echo(f"start reset consumer offset by specified, {what}, queueId[{queue_id}], broker[{address}], {when}")
        reached = await admin.reset_queue_at(address, group, topic, queue_id, timestamp_ms=timestamp, offset=offset)
        echo(f"reset consumer offset to {reached}")
        return
    force = "true" if args.truth("force", True) else "false"
    # Brokers of 4.9 take a time behind the last message for that message, and -1 for the end.
    table = await admin.reset_offset(group, topic, -1 if text == "now" else timestamp)
    echo(f"start reset consumer offset by specified, {what}, force[{force}], {when}")
    _print_offsets(table)


async def skip_accumulated(admin: AdminTool, args: Arguments) -> None:
    _print_offsets(await admin.reset_offset(args.text("group"), args.text("topic"), -1))


def _print_offsets(table: dict[MessageQueue, int]) -> None:
    echo(f"{'#brokerName':<40}  {'#queueId':<40}  {'#offset':<40}")
    for queue, offset in table.items():
        echo(f"{queue.broker_name:<40}  {queue.queue_id:<40}  {offset:<40}")


async def clone_group_offset(admin: AdminTool, args: Arguments) -> None:
    source, target, topic = args.text("srcGroup"), args.text("destGroup"), args.text("topic")
    await admin.clone_offsets(source, target, topic)
    echo(f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]")
