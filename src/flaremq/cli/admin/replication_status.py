"""How the brokers of a name stand with each other: roles, epochs, who is in sync, who is behind and by how much.

Facts come from the brokers themselves and, where a controller chooses the masters, from it. A broker that does not
answer, a slave that gets nothing, a group without master, a member that is dead: each is an alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flaremq.cli import output as out
from flaremq.errors import FlareMQError

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.protocol.bodies.controller import EpochEntryCache, ReplicasInfo
    from flaremq.protocol.bodies.replication import HARuntimeInfo

COLUMNS = out.headings(
    "broker, role, brokerId=id, address, epoch, inSync=in sync, logEnd=log end, lagBytes=lag bytes, "
    "lagMillis=lag ms, alarm"
)


@dataclass(frozen=True, slots=True)
class Member:
    """One broker as the name server lists it, and what it answered."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    ha: HARuntimeInfo | None = None
    epochs: EpochEntryCache | None = None
    status: Mapping[str, str] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """All members of a name. ``controlled``: what the controller says, if one chooses the master."""

    members: list[Member] = field(default_factory=list)
    controlled: ReplicasInfo | None = None
    controller_error: str = ""


def rows_of(group: Group, now_ms: int) -> list[dict[str, Any]]:
    """A row a broker, dead ones that only the controller knows too."""
    ends = [member.ha.master_commit_log_max_offset for member in group.members if member.ha and member.ha.master]
    master_end = max(ends, default=None)
    rows = [_row(member, group, master_end, now_ms) for member in group.members]
    if group.controlled is not None and rows:
        listed = {row["address"] for row in rows}
        known = (*group.controlled.in_sync_replicas, *group.controlled.not_in_sync_replicas)
        rows += [
            {
                "cluster": rows[0]["cluster"],
                "broker": replica.broker_name,
                "brokerId": replica.broker_id,
                "address": replica.broker_address,
                "role": None,
                "inSync": replica in group.controlled.in_sync_replicas,
                "alarm": "not registered at the name server" if replica.alive else "not alive",
            }
            for replica in known
            if replica.broker_address not in listed
        ]
    if master_end is None and len(rows) > 0:
        rows[0]["alarm"] = "; ".join(filter(None, ("no master", rows[0]["alarm"])))
    return rows


def _row(member: Member, group: Group, master_end: int | None, now_ms: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "cluster": member.cluster,
        "broker": member.broker,
        "brokerId": member.broker_id,
        "address": member.address,
        "role": None,
        "epoch": None,
        "inSync": _in_sync(member, group),
        "logEnd": None,
        "lagBytes": None,
        "lagMillis": None,
    }
    alarms = [member.error, group.controller_error]
    ha = member.ha
    if ha is not None:
        row["role"] = "master" if ha.master else "slave"
        client = ha.ha_client_runtime_info
        row["logEnd"] = ha.master_commit_log_max_offset if ha.master else client.max_offset
        if not ha.master and master_end is not None:
            row["lagBytes"] = max(master_end - client.max_offset, 0)
            row["lagMillis"] = _lag_ms(row["lagBytes"], client.store_timestamp, now_ms)
        alarms += [ha.alarm or "", "" if ha.master else client.failure or ""]
    if member.epochs is not None and member.epochs.epoch_list:
        row["epoch"] = member.epochs.epoch_list[-1].epoch
    row["alarm"] = "; ".join(filter(None, alarms))
    return row


def _lag_ms(lag_bytes: int, stored_at_ms: int | None, now_ms: int) -> int | None:
    """How old the newest message is that a slave has, while it does not have all. Brokers of RocketMQ do not tell."""
    if lag_bytes == 0:
        return 0
    return None if stored_at_ms is None else max(now_ms - stored_at_ms, 0)


def _in_sync(member: Member, group: Group) -> bool | None:
    if group.controlled is None:
        return None
    return any(replica.broker_address == member.address for replica in group.controlled.in_sync_replicas)


async def collect(admin: AdminTool, brokers: Iterable[tuple[str, str, int, str]]) -> list[Group]:
    """Ask all brokers at once, and their controllers."""
    members = await asyncio.gather(*(_member(admin, *broker) for broker in brokers))
    groups: dict[str, list[Member]] = {}
    for member in members:
        groups.setdefault(member.broker, []).append(member)
    return list(await asyncio.gather(*(_group(admin, name, found) for name, found in groups.items())))


async def _member(admin: AdminTool, cluster: str, name: str, broker_id: int, address: str) -> Member:
    try:
        status = await admin.broker_status(address)
    except FlareMQError as error:
        return Member(cluster, name, broker_id, address, error=str(error))
    ha: HARuntimeInfo | None = None
    epochs: EpochEntryCache | None = None
    try:
        ha = await admin.ha_status(address)
        epochs = await admin.broker_epochs(address)
    except FlareMQError:
        pass  # RocketMQ 4.9 knows neither, a broker without a controller not the second
    return Member(cluster, name, broker_id, address, ha, epochs, status)


async def _group(admin: AdminTool, name: str, members: list[Member]) -> Group:
    """With the controller's word, if these brokers have one."""
    for member in members:
        if member.status is None:
            continue
        try:
            config = await admin.broker_config(member.address)
        except FlareMQError:
            continue
        if config.get("enableControllerMode") != "true":
            return Group(members)
        problem = ""
        for controller in filter(None, config.get("controllerAddr", "").split(";")):
            try:
                return Group(members, (await admin.sync_state(controller, [name])).get(name))
            except FlareMQError as error:
                problem = f"controller: {error}"
        return Group(members, None, problem)
    return Group(members)
