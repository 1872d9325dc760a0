"""Brokers: options that may be changed while they run, their place in the routes, cleaning up."""

from __future__ import annotations

from typing import Final

from flaremq.broker.options import BrokerOptions
from flaremq.dashboard.actions.fields import Fields
from flaremq.dashboard.actions.plan import Desk, Plan, Row, Step
from flaremq.dashboard.views.brokers import find_broker
from flaremq.errors import InvalidArgumentError
from flaremq.options import OptionRow, rows_by_key
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.options import StoreOptions

_CLEANINGS: Final = ("expired_log", "expired_queues", "unused_topics")


def _known(name: str) -> OptionRow | None:
    for layer in (BrokerOptions, StoreOptions, RemotingOptions):
        if (row := rows_by_key(layer).get(name)) is not None:
            return row
    return None


async def option(desk: Desk, fields: Fields) -> Plan:
    """Only options that are plain switches, numbers and choices: no paths, addresses or names. A broker of Java's would
    take anything."""
    broker = find_broker(desk.state, fields.needed("broker"))
    name, value = fields.needed("name"), fields.text("value")
    row = _known(name)
    if row is None or row.secret or not (row.live or name == "flushDiskType"):
        why = "is not known here" if row is None else f"cannot be changed over the wire: {row.fixed or 'it is secret'}"
        raise InvalidArgumentError(f"option {name!r} {why}")
    row.check(row.parse(value))
    config = await desk.reader.broker_config(broker.address)
    before = config.get(name)
    plan = Plan(steps=[], rows=[{"broker": broker.name, "before": before, "after": value}])
    plan.confirm = name if row.affects == "durability" else None

    async def run() -> Row:
        await desk.reader.set_broker_config({name: value}, broker=broker.address)
        broker.config_ms = 0  # so that it is read again soon
        return {"after": (await desk.reader.broker_config(broker.address)).get(name)}

    plan.steps.append(Step(broker.name, run, 0))
    plan.before, plan.after = {name: before}, {name: value}
    plan.effect("option_set", name=name, value=value, until="restart")
    return plan


async def permission(desk: Desk, fields: Fields) -> Plan:
    """Whether producers find the broker in the routes; at all name servers."""
    broker = find_broker(desk.state, fields.needed("broker"))
    write = fields.flag("write")
    plan = Plan(steps=[], confirm=broker.name)
    topics = sum(broker.name in topic.configs for topic in desk.state.topics.values())
    plan.rows = [{"name_server": address, "topics": topics} for address in desk.reader.name_servers]

    async def run() -> None:
        counts = await desk.reader.change_write_permission(broker.name, write=write)
        plan.rows = [{"name_server": address, "topics": count} for address, count in counts.items()]

    plan.steps.append(Step(broker.name, run))
    plan.after = {"broker": broker.name, "write": write}
    plan.effect("permission", topics=topics)
    return plan


async def clean(desk: Desk, fields: Fields) -> Plan:
    broker, what = find_broker(desk.state, fields.needed("broker")), fields.chosen("what", _CLEANINGS)
    orders = {
        "expired_log": desk.reader.delete_expired_commit_log,
        "expired_queues": desk.reader.clean_expired_queues,
        "unused_topics": desk.reader.clean_unused_topics,
    }

    async def run() -> None:
        await orders[what](broker=broker.address)

    plan = Plan(steps=[Step(broker.name, run, 0)], rows=[{"broker": broker.name}], confirm=broker.name)
    plan.before = {"broker": broker.name, "what": what}
    plan.effect("cleaned")
    return plan
