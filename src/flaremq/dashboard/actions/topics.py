"""Topics: make, change, delete."""

from __future__ import annotations

import dataclasses
from typing import Any

from flaremq.client.arguments import check_topic
from flaremq.dashboard.actions.fields import Fields
from flaremq.dashboard.actions.plan import Desk, Plan, Row, Step
from flaremq.dashboard.data.names import PERM_READ, PERM_WRITE, perm_text
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError
from flaremq.protocol.bodies.topic import TopicConfig

_QUEUES_MAX = 65_536


async def create(desk: Desk, fields: Fields) -> Plan:
    topic = fields.needed("topic")
    check_topic(topic)
    masters = await desk.reader.masters(cluster=fields.text("cluster") or None, broker=fields.text("broker") or None)
    config = _config(fields, TopicConfig(topic_name=topic, read_queue_nums=8, write_queue_nums=8))
    attributes = _attributes(fields)
    taken = [name for name, address in masters.items() if await _has(desk, topic, name, address)]
    if taken:
        raise InvalidArgumentError(f"topic {topic!r} exists already on {', '.join(taken)}: change it instead")
    plan = Plan(steps=[])
    for name, address in masters.items():
        plan.rows.append({"broker": name, "before": None, "after": _shown(config)})
        plan.steps.append(_step(desk, name, address, config, attributes, len(plan.rows) - 1))
    plan.after = _shown(config)
    plan.effect("topic_created")
    return plan


async def update(desk: Desk, fields: Fields) -> Plan:
    """What is not given stays as it is."""
    topic = fields.needed("topic")
    wanted = fields.text("broker")
    brokers = {
        name: address
        for name, address in (await desk.reader.brokers_of(topic)).items()
        if wanted in ("", name, address)
    }
    if not brokers:
        raise NotFoundError(f"broker {wanted!r} does not have topic {topic!r}")
    plan, attributes = Plan(steps=[]), _attributes(fields)
    for name, address in brokers.items():
        before = await desk.reader.topic_config(topic, address)
        after = _config(fields, before)
        shrinks = after.read_queue_nums < before.read_queue_nums or after.write_queue_nums < before.write_queue_nums
        if shrinks or ~after.perm & before.perm & (PERM_READ | PERM_WRITE):
            plan.confirm = topic
        plan.rows.append({"broker": name, "before": _shown(before), "after": _shown(after)})
        plan.before, plan.after = _shown(before), _shown(after)
        plan.steps.append(_step(desk, name, address, after, attributes, len(plan.rows) - 1))
    plan.effect("topic_changed")
    return plan


async def delete(desk: Desk, fields: Fields) -> Plan:
    topic, cluster = fields.needed("topic"), fields.text("cluster") or None
    status = await desk.reader.topic_status(topic)
    messages: dict[str, int] = {}
    for queue, end in status.items():
        messages[queue.broker_name] = messages.get(queue.broker_name, 0) + max(0, end.max_offset - end.min_offset)
    total = sum(messages.values())

    async def run() -> None:
        await desk.reader.delete_topic(topic, cluster=cluster)

    plan = Plan(
        steps=[Step(topic, run)],
        rows=[{"broker": name, "messages": count} for name, count in sorted(messages.items())],
        before={"topic": topic, "messages": total},
        confirm=topic,
    )
    plan.effect("topic_deleted", messages=total)
    return plan


async def _has(desk: Desk, topic: str, broker: str, address: str) -> bool:
    """The broker is asked: what was last sampled may be older than the topic, and making one changes it."""
    try:
        await desk.reader.topic_config(topic, address)
    except NotFoundError:
        return False
    except FlareMQError:  # refused or silent: the step tells it of its broker, the others are made
        known = desk.state.topics.get(topic)
        return known is not None and broker in known.configs
    return True


def _step(desk: Desk, name: str, address: str, config: TopicConfig, attributes: str, row: int) -> Step:
    async def run() -> None:
        await desk.reader.update_topic_at(address, config, attributes)

    return Step(name, run, row)


def _config(fields: Fields, known: TopicConfig) -> TopicConfig:
    return dataclasses.replace(
        known,
        read_queue_nums=fields.whole("read_queues", known.read_queue_nums, low=1, high=_QUEUES_MAX),
        write_queue_nums=fields.whole("write_queues", known.write_queue_nums, low=1, high=_QUEUES_MAX),
        perm=fields.whole("perm", known.perm, high=7),
        order=fields.flag("order", known.order),
    )


def _attributes(fields: Fields) -> str:
    """Changes, ``+a=b,-c``."""
    kind, more = fields.text("message_type"), fields.text("attributes").strip()
    changes = [more] if more else []
    if kind:
        changes.append(f"+message.type={fields.chosen('message_type', _TYPES)}")
    return ",".join(changes)


_TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")


def _shown(config: TopicConfig) -> Row:
    shown: dict[str, Any] = {
        "read_queues": config.read_queue_nums,
        "write_queues": config.write_queue_nums,
        "perm": perm_text(config.perm),
        "order": config.order,
    }
    return shown
