"""What a decision of the controller is: the reply, what has to be durable before it is sent, and whom to tell."""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.controller.groups import ReplicaGroup
from flaremq.protocol.bodies.bean import Bean
from flaremq.protocol.bodies.controller import ElectMasterResponseBody, SyncStateSet
from flaremq.protocol.bodies.route import BrokerMemberGroup
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.headers import controller as headers
from flaremq.protocol.headers.custom_header import CustomHeader


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: CustomHeader | None = None
    body: Bean | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A decision: the reply, and what has to be durable before it is sent."""

    reply: Reply
    before: ReplicaGroup | None = None
    after: ReplicaGroup | None = None  # None: nothing durable changes
    restarted: tuple[str, int] | None = None  # name and id of a broker whose former life ends with this


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """NOTIFY_BROKER_ROLE_CHANGED, and who gets it."""

    header: headers.NotifyBrokerRoleChangedRequestHeader
    body: SyncStateSet
    addresses: tuple[str, ...]


def is_new_master(outcome: Outcome) -> bool:
    """Whether a broker becomes master by it."""
    after, before = outcome.after, outcome.before
    if after is None or after.master_id is None:
        return False
    return before is None or before.master_epoch != after.master_epoch


def refused(code: int, remark: str) -> Outcome:
    return Outcome(reply=Reply(code, remark))


def set_of(group: ReplicaGroup) -> SyncStateSet:
    return SyncStateSet(sync_state_set=group.sync_state_set, sync_state_set_epoch=group.sync_state_set_epoch)


def elect_header(group: ReplicaGroup) -> headers.ElectMasterResponseHeader:
    master = group.master
    return headers.ElectMasterResponseHeader(
        master_broker_id=group.master_id,
        master_address=None if master is None else master.address,
        master_epoch=group.master_epoch,
        sync_state_set_epoch=group.sync_state_set_epoch,
    )


def elect_body(group: ReplicaGroup) -> ElectMasterResponseBody:
    members = BrokerMemberGroup(cluster=group.cluster, broker_name=group.broker_name, broker_addrs=group.addresses)
    return ElectMasterResponseBody(broker_member_group=members, sync_state_set=group.sync_state_set)
