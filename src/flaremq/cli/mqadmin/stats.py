"""Rates of topics and groups in RocketMQ's own spelling."""

from __future__ import annotations

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.output import echo
from flaremq.errors import FlareMQError
from flaremq.message.topics import is_dlq_topic, is_retry_topic
from flaremq.protocol.bodies.topic import BrokerStatsData


async def stats_all(admin: AdminTool, args: Arguments) -> None:
    header = ("#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
    echo(
        f"{'#Topic':<64}  {'#Consumer Group':<64} {'#Accumulation':>12} "
        + "{:>11} {:>11} {:>14} {:>14}".format(*header)
    )
    wanted, only_active = args.maybe("topic"), args.truth("activeTopic")
    for topic in await admin.list_topics():
        if is_retry_topic(topic) or is_dlq_topic(topic) or wanted not in (None, topic):
            continue
        await _print_topic(admin, topic, only_active)


async def _print_topic(admin: AdminTool, topic: str, only_active: bool) -> None:
    try:
        groups = await admin.topic_groups(topic)
        in_tps, in_day = await _rate(admin, topic, "TOPIC_PUT_NUMS", topic)
    except FlareMQError as error:
        echo(f"{topic:<64}  {error}")
        return
    if not groups and (in_day or not only_active):
        echo(f"{topic:<64}  {'':<64} {0:>12} {in_tps:>11.2f} {'':>11} {in_day:>14} {'NO_CONSUMER':>14}")
    for group in groups:
        out_tps, out_day = await _rate(admin, topic, "GROUP_GET_NUMS", f"{topic}@{group}")
        if only_active and not in_day and not out_day:
            continue
        behind = await _behind(admin, topic, group)
        echo(f"{topic:<64}  {group:<64} {behind:>12} {in_tps:>11.2f} {out_tps:>11.2f} {in_day:>14} {out_day:>14}")


async def _behind(admin: AdminTool, topic: str, group: str) -> int:
    try:
        table = (await admin.group_progress(group, topic=topic)).offset_table
    except FlareMQError:
        return 0  # it has never consumed
    return sum(entry.broker_offset - entry.consumer_offset for queue, entry in table.items() if queue.topic == topic)


async def _rate(admin: AdminTool, topic: str, name: str, key: str) -> tuple[float, int]:
    """Messages a second over the last minute and messages over the last day, all brokers together."""
    tps, day = 0.0, 0
    for address in (await admin.brokers_of(topic)).values():
        try:
            stats = await admin.broker_stats(address, name, key)
        except FlareMQError:
            continue  # nothing was counted yet
        tps += stats.stats_minute.tps
        day += _day(stats)
    return tps, day


def _day(stats: BrokerStatsData) -> int:
    """The longest period something was counted for: a day's count is there after an hour only."""
    return stats.stats_day.sum or stats.stats_hour.sum or stats.stats_minute.sum
