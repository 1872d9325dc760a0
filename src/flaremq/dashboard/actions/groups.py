"""Groups: go on elsewhere, take over another group's place, delete. Previews count what is read again or skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from flaremq.client.arguments import check_group
from flaremq.dashboard.actions.fields import Fields
from flaremq.dashboard.actions.plan import Desk, Plan, Row, Step
from flaremq.dashboard.data.broker_state import BrokerState
from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.protocol.bodies.queue import MessageQueue

_EXACT_VERSION: Final = 413  # 5.0.0: before, a reset knows neither queue nor offset
_WAYS: Final = ("earliest", "latest", "time", "offset", "shift", "like-group")
Ends = tuple[int, int]
Target = Callable[[MessageQueue, Ends, int], Awaitable[int]]


async def reset(desk: Desk, fields: Fields) -> Plan:
    group, topic = fields.needed("group"), fields.needed("topic")
    way = fields.chosen("to", _WAYS)
    return await _moved(desk, group, topic, await _target(desk, fields, way, topic), fields.text("queue"))


async def skip(desk: Desk, fields: Fields) -> Plan:
    """Go on behind everything that is there now."""

    async def target(queue: MessageQueue, ends: Ends, committed: int) -> int:
        return ends[1]

    return await _moved(desk, fields.needed("group"), fields.needed("topic"), target, fields.text("queue"))


async def copy(desk: Desk, fields: Fields) -> Plan:
    """Let ``target`` go on where ``group`` is."""
    source, group, topic = fields.needed("group"), fields.needed("target"), fields.needed("topic")
    return await _moved(desk, group, topic, await _like(desk, source, topic), "")


async def _target(desk: Desk, fields: Fields, way: str, topic: str) -> Target:
    if way == "like-group":
        return await _like(desk, fields.needed("value"), topic)
    value = fields.whole("value", low=-(2**63) if way == "shift" else 0) if way in ("time", "offset", "shift") else 0

    async def target(queue: MessageQueue, ends: Ends, committed: int) -> int:
        if way == "earliest":
            return ends[0]
        if way == "latest":
            return ends[1]
        if way == "time":
            return await desk.reader.offset_by_time(queue, value)
        return value if way == "offset" else committed + value

    return target


async def _like(desk: Desk, source: str, topic: str) -> Target:
    stats = await desk.reader.group_progress(source, topic=topic)
    known = {queue: entry.consumer_offset for queue, entry in stats.offset_table.items() if queue.topic == topic}
    if not known:
        raise NotFoundError(f"group {source!r} has no offsets of topic {topic!r}")

    async def target(queue: MessageQueue, ends: Ends, committed: int) -> int:
        return known.get(queue, committed)

    return target


async def _moved(desk: Desk, group: str, topic: str, target: Target, only: str) -> Plan:
    check_group(group)
    if desk.state.groups and group not in desk.state.groups and group not in await desk.reader.list_groups():
        raise NotFoundError(f"group {group!r} does not exist")
    status = await desk.reader.topic_status(topic)
    progress = (await desk.reader.group_progress(group, topic=topic)).offset_table
    queues = [queue for queue in sorted(status) if only in ("", f"{queue.broker_name}/{queue.queue_id}")]
    if not queues:
        raise NotFoundError(f"topic {topic!r} has no queue {only!r}" if only else f"topic {topic!r} has no queues")
    plan = Plan(steps=[], confirm=group)
    again = skipped = 0
    ends = {queue: (max(status[queue].min_offset, 0), max(status[queue].max_offset, 0)) for queue in queues}
    committed = {queue: progress[queue].consumer_offset if queue in progress else 0 for queue in queues}
    wanted = await asyncio.gather(*(target(queue, ends[queue], committed[queue]) for queue in queues))
    for queue, offset in zip(queues, wanted, strict=True):
        low, high = ends[queue]
        at = min(max(offset, low), high)
        row: Row = {
            "id": f"{queue.broker_name}/{queue.queue_id}",
            "topic": topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "committed": committed[queue],
            "target": at,
            "read_again": max(0, committed[queue] - at),
            "skipped": max(0, at - max(committed[queue], low)),
        }
        again, skipped = again + row["read_again"], skipped + row["skipped"]
        plan.rows.append(row)
        if at != committed[queue]:
            plan.steps.append(_step(desk, group, queue, at, len(plan.rows) - 1))
    plan.before = {"group": group, "topic": topic, "lag": sum(max(0, ends[q][1] - committed[q]) for q in queues)}
    plan.after = {
        "group": group,
        "topic": topic,
        "lag": sum(ends[q][1] - r["target"] for q, r in zip(queues, plan.rows, strict=True)),
    }
    if again:
        plan.effect("read_again", messages=again)
    if skipped:
        plan.effect("skipped", messages=skipped)
    return plan


def _step(desk: Desk, group: str, queue: MessageQueue, offset: int, row: int) -> Step:
    async def run() -> Row:
        broker = desk.state.master_of(queue.broker_name)
        if broker is None:
            raise UnavailableError(f"broker {queue.broker_name} has no master at the moment")
        if not _resets_exactly(broker):
            await _commit(desk, group, queue, offset)
            return {"target": offset}
        at = await desk.reader.reset_queue_at(broker.address, group, queue.topic, queue.queue_id, offset=offset)
        if at != offset:
            raise UnavailableError(f"the broker set offset {at} instead of {offset}")
        return {"target": at}

    return Step(f"{queue.broker_name}/{queue.queue_id}", run, row)


def _resets_exactly(broker: BrokerState) -> bool:
    version = broker.whole("brokerVersion") or 0
    here = (broker.config or {}).get("useServerSideResetOffset", "true")
    return version >= _EXACT_VERSION and here == "true"


async def _commit(desk: Desk, group: str, queue: MessageQueue, offset: int) -> None:
    """For brokers that know no such reset. Members would commit theirs over it."""
    known = desk.state.groups.get(group)
    if known is None or known.is_online is not False:
        raise InvalidArgumentError(
            f"broker {queue.broker_name} sets single offsets of groups alone whose members are all disconnected"
        )
    await desk.reader.commit_offset(group, queue, offset)


async def delete(desk: Desk, fields: Fields) -> Plan:
    group, with_offsets = fields.needed("group"), fields.flag("remove_offset", True)
    known = desk.state.groups.get(group)
    if known is None:
        raise NotFoundError(f"group {group!r} does not exist")
    if known.is_online:
        raise InvalidArgumentError(
            f"group {group!r} has connected members: it would come back with their next heartbeat"
        )
    lags: dict[str, int] = dict.fromkeys(sorted(known.configs), 0)
    for key, place in known.places.items():
        lags[key.broker] = lags.get(key.broker, 0) + place.lag

    async def run() -> None:
        await desk.reader.delete_group(group, remove_offset=with_offsets)

    plan = Plan(
        steps=[Step(group, run)],
        rows=[{"broker": name, "lag": lag} for name, lag in lags.items()],
        before={"group": group, "lag": known.lag},
        confirm=group,
    )
    plan.effect("group_deleted", lag=known.lag)
    return plan
