"""ControllerState: every decision of a controller, without input or output, clock or randomness.

A request goes in as its typed header (and body) with ``now``, seconds of a steady clock; an :class:`Outcome` comes out:
the reply, and, if something durable changes, the group as it will be. Deciding changes nothing. The caller makes the
change durable and only then calls :meth:`ControllerState.commit`, sends the reply, and tells the brokers
(:meth:`ControllerState.notice`). A simulation that has no disk just commits::

    reply = state.commit(state.elect_master(header, now), now)

One owner, one decision at a time: an outcome that was decided before another one of the same name was committed is
refused by ``commit``. Heartbeats are not durable and take effect at once.

Where this is stricter than the original:

* Offsets are compared as 64-bit numbers, and a broker's ``invokeTime`` decides nothing.
* A master that registers has started anew; it may have lost the end of its log. Another live member of the
  SyncStateSet takes over; without one the broker has to be elected again, into a new epoch.
* A broker that is alive keeps its id: a copy of it that starts elsewhere is refused.
* Members that were in the SyncStateSet need not be alive for others to leave it: else two dead brokers block each
  other's removal.
* Cleaning a broker name away does not make its ids and epochs begin anew (see ``groups``).

After a start nobody was heard of yet. A master keeps its office for ``grace_seconds`` from then on, as does one that
was just elected; if the connection of its heartbeats closes it does not wait for that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from flaremq.controller import election
from flaremq.controller.groups import (
    EPOCH_MAX,
    GROUPS_MAX,
    MEMBERS_MAX,
    NO_BROKER,
    TEXT_MAX,
    Member,
    ReplicaGroup,
    check_names,
)
from flaremq.controller.liveness import Liveness
from flaremq.controller.outcomes import (
    Notice,
    Outcome,
    Reply,
    elect_body,
    elect_header,
    is_new_master,
    refused,
    set_of,
)
from flaremq.errors import InvalidArgumentError
from flaremq.protocol.bodies.controller import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo, SyncStateSet
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.headers import controller as headers
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader

GRACE_SECONDS: Final = 10.0  # a broker's heartbeat timeout, where it names none


class ControllerState:
    """The state of a controller that leads. One thread (event loop) only."""

    def __init__(
        self,
        groups: Iterable[ReplicaGroup] = (),
        *,
        now: float,
        unclean: bool = False,
        grace_seconds: float = GRACE_SECONDS,
        liveness: Liveness | None = None,
    ) -> None:
        self._groups = {group.broker_name: group for group in groups}
        self.liveness = liveness if liveness is not None else Liveness()
        self.unclean = unclean  # may a master be elected from outside of the SyncStateSet
        self._grace_seconds = grace_seconds
        # By name: a master that counts as alive until then although nothing was heard of it yet.
        self._presumed: dict[str, tuple[int, float]] = {}
        for group in self._groups.values():
            self._presume(group, now)

    @property
    def groups(self) -> Mapping[str, ReplicaGroup]:
        """All groups by broker name, those without members too."""
        return self._groups

    def group(self, broker_name: str) -> ReplicaGroup | None:
        """The group of a name that has brokers."""
        group = self._groups.get(broker_name)
        return group if group is not None and group.exists else None

    def check(self, outcome: Outcome) -> None:
        """CorruptionError unless this can come next; to be asked before it is made durable."""
        after = outcome.after
        if after is not None:
            assert self._groups.get(after.broker_name) is outcome.before, "decided upon a state that is gone"
            after.check_follows(outcome.before)

    def commit(self, outcome: Outcome, now: float) -> Reply:
        """Make a decision effective; the caller has made it durable. Returns the reply."""
        self.check(outcome)
        if outcome.restarted is not None:
            self.liveness.forget(*outcome.restarted)
        if outcome.after is not None:
            self._groups[outcome.after.broker_name] = outcome.after
            if is_new_master(outcome):
                self._presume(outcome.after, now)
        return outcome.reply

    # Ids

    def next_broker_id(self, header: headers.GetNextBrokerIdRequestHeader) -> Outcome:
        """GET_NEXT_BROKER_ID."""
        group = self._known(header.cluster_name, header.broker_name)
        found = headers.GetNextBrokerIdResponseHeader(
            cluster_name=header.cluster_name,
            broker_name=header.broker_name,
            next_broker_id=1 if group is None else group.next_broker_id,
        )
        return Outcome(reply=Reply(header=found))

    def apply_broker_id(self, header: headers.ApplyBrokerIdRequestHeader) -> Outcome:
        """APPLY_BROKER_ID: the next free id, or again the one that was given for the same check code."""
        group = self._known(header.cluster_name, header.broker_name)
        _check_text("check code", header.register_check_code)
        broker_id = header.applied_broker_id
        granted = Reply(
            header=headers.ApplyBrokerIdResponseHeader(cluster_name=header.cluster_name, broker_name=header.broker_name)
        )
        owner = None if group is None else group.members.get(broker_id)
        if owner is not None and owner.check_code == header.register_check_code:
            return Outcome(reply=granted)
        if broker_id != (1 if group is None else group.next_broker_id):
            return refused(
                ResponseCode.CONTROLLER_BROKER_ID_INVALID,
                f"id {broker_id} of {header.broker_name} is not free: ask for the next one",
            )
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                raise InvalidArgumentError(f"the controller has {GROUPS_MAX} broker names and takes no more")
            before, group = None, ReplicaGroup(cluster=header.cluster_name, broker_name=header.broker_name)
        else:
            before = group
        if len(group.members) >= MEMBERS_MAX:
            raise InvalidArgumentError(f"{header.broker_name} has {MEMBERS_MAX} brokers and takes no more")
        group = replace(group, cluster=header.cluster_name)  # of a name that was cleaned away
        after = group.with_member(Member(broker_id, "", header.register_check_code))
        return Outcome(reply=granted, before=before, after=after)

    # Life of a broker

    def register_broker(self, header: headers.RegisterBrokerToControllerRequestHeader, now: float) -> Outcome:
        """REGISTER_BROKER: a broker starts at this address."""
        before = self._known(header.cluster_name, header.broker_name)
        broker_id, address = header.broker_id, header.broker_address
        _check_text("address", address)
        member = None if before is None else before.members.get(broker_id)
        if before is None or member is None:
            return refused(
                ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
                f"{header.broker_name} has no broker with id {broker_id}: apply for an id",
            )
        after = before
        if member.address != address:
            if self.liveness.find(before.broker_name, member, now) is not None:
                return refused(
                    ResponseCode.CONTROLLER_BROKER_ID_INVALID,
                    f"broker {broker_id} of {before.broker_name} is alive at {member.address}, not at {address}",
                )
            after = before.with_member(replace(member, address=address))
        if before.master_id == broker_id:
            living = self.liveness.living(before, now)
            living.pop(broker_id, None)
            after = self._succeeded(after, election.choose(living, before.sync_state_set, unclean=self.unclean))
        reply = Reply(header=self._registered(after, now), body=set_of(after))
        restarted = (before.broker_name, broker_id)
        return Outcome(reply=reply, before=before, after=None if after == before else after, restarted=restarted)

    def _registered(self, group: ReplicaGroup, now: float) -> headers.RegisterBrokerToControllerResponseHeader:
        answer = headers.RegisterBrokerToControllerResponseHeader(
            cluster_name=group.cluster, broker_name=group.broker_name
        )
        master = group.master
        if master is None or not self._stands(group, now):
            return answer
        return replace(
            answer,
            master_broker_id=master.broker_id,
            master_address=master.address,
            master_epoch=group.master_epoch,
            sync_state_set_epoch=group.sync_state_set_epoch,
        )

    def heartbeat(self, header: BrokerHeartbeatRequestHeader, now: float, source: Hashable = None) -> Reply:
        """BROKER_HEARTBEAT, over the connection ``source``. One from elsewhere takes nobody's place."""
        group, broker_id = self.group(header.broker_name), header.broker_id
        member = None if group is None or broker_id is None else group.members.get(broker_id)
        if member is not None and member.address not in ("", header.broker_addr):
            return Reply(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                f"broker {broker_id} of {header.broker_name} is registered at {member.address}",
            )
        reply = note_heartbeat(self.liveness, header, now, source)
        presumed = self._presumed.get(header.broker_name) if reply.code == ResponseCode.SUCCESS else None
        if presumed is not None and presumed[0] == header.broker_id:
            del self._presumed[header.broker_name]
        return reply

    def source_closed(self, source: Hashable) -> None:
        """The connection of a broker's heartbeats is gone, and the broker with it."""
        self.liveness.close(source)

    def abandoned(self, now: float) -> list[str]:
        """The names whose master is no longer alive: each needs :meth:`elect_by_itself`."""
        self.liveness.expire(now)
        return [
            name for name, group in self._groups.items() if group.master_id is not None and not self._stands(group, now)
        ]

    # Elections

    def elect_by_itself(self, broker_name: str, now: float) -> Outcome:
        """The controller found that the master is gone."""
        group = self.group(broker_name)
        if group is None or group.master_id is None or self._stands(group, now):
            return Outcome(reply=Reply())
        living = self.liveness.living(group, now)
        return self._elected(group, election.choose(living, group.sync_state_set, unclean=self.unclean))

    def elect_master(self, header: headers.ElectMasterRequestHeader, now: float) -> Outcome:
        """ELECT_MASTER, asked by a broker or an administrator."""
        group = self._known(header.cluster_name, header.broker_name)
        asker = None if header.broker_id == NO_BROKER else header.broker_id
        if group is None or not group.exists or (asker is not None and not self._has_address(group, asker)):
            return refused(
                ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
                f"{header.broker_name} or its broker {header.broker_id} is not registered",
            )
        if not group.has_elected and asker is not None:
            return self._elected(group, asker)
        wanted = asker if header.designate_elect else None
        if self._stands(group, now) and wanted in (None, group.master_id):
            reply = Reply(
                ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
                f"broker {group.master_id} is master of {group.broker_name} and alive",
                elect_header(group),
                elect_body(group),
            )
            return Outcome(reply=reply)
        living = self.liveness.living(group, now)
        chosen = election.choose(living, group.sync_state_set, unclean=self.unclean, wanted=wanted)
        if chosen is None and asker is not None:
            return refused(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
                f"no broker of {group.broker_name} can be elected: in sync are {sorted(group.sync_state_set)}, "
                f"alive {sorted(living)}",
            )
        return self._elected(group, chosen)

    def _elected(self, group: ReplicaGroup, chosen: int | None) -> Outcome:
        after = self._succeeded(group, chosen)
        if after.master_id is None:
            reply = Reply(
                ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
                f"the master of {group.broker_name} is gone, and no broker in sync with it is alive",
            )
        else:
            reply = Reply(header=elect_header(after), body=elect_body(after))
        return Outcome(reply=reply, before=group, after=None if after == group else after)

    def _succeeded(self, group: ReplicaGroup, chosen: int | None) -> ReplicaGroup:
        """The group under its next master, or under none."""
        if chosen is None:
            return group.without_master()
        if max(group.master_epoch, group.sync_state_set_epoch) >= EPOCH_MAX:
            raise InvalidArgumentError(f"{group.broker_name} has used up all epochs")
        return group.with_master(chosen)

    def notice(self, outcome: Outcome, now: float) -> Notice | None:
        """After an outcome with a new master was committed: what all live brokers of the name are told."""
        group = outcome.after
        if group is None or not is_new_master(outcome):
            return None
        master = group.master
        assert master is not None
        header = headers.NotifyBrokerRoleChangedRequestHeader(
            master_address=master.address,
            master_broker_id=master.broker_id,
            master_epoch=group.master_epoch,
            sync_state_set_epoch=group.sync_state_set_epoch,
        )
        addresses = sorted({heartbeat.address for heartbeat in self.liveness.living(group, now).values()})
        return Notice(header=header, body=set_of(group), addresses=tuple(addresses)) if addresses else None

    # The SyncStateSet

    def alter_sync_state_set(
        self, header: headers.AlterSyncStateSetRequestHeader, body: SyncStateSet, now: float
    ) -> Outcome:
        """ALTER_SYNC_STATE_SET: the master proposes a new set in place of the one with the epoch in ``body``."""
        group, wanted = self.group(header.broker_name), body.sync_state_set
        failed = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
        if group is None:
            return refused(failed, f"there is no broker {header.broker_name[:TEXT_MAX]}")
        if wanted == group.sync_state_set:
            return refused(failed, "the SyncStateSet would not change")
        if header.master_broker_id != group.master_id:
            return refused(
                ResponseCode.CONTROLLER_INVALID_MASTER,
                f"broker {header.master_broker_id} is not the master of {group.broker_name}: {group.master_id} is",
            )
        if header.master_epoch != group.master_epoch:
            return refused(
                ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
                f"master epoch {header.master_epoch} is not {group.master_epoch}",
            )
        if body.sync_state_set_epoch != group.sync_state_set_epoch:
            return refused(
                ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
                f"SyncStateSet epoch {body.sync_state_set_epoch} is not {group.sync_state_set_epoch}",
            )
        if unknown := wanted - group.members.keys():
            return refused(ResponseCode.CONTROLLER_INVALID_REPLICAS, f"unknown brokers: {sorted(unknown)[:8]}")
        if dead := [key for key in wanted - group.sync_state_set if not self.liveness.is_alive(group, key, now)]:
            return refused(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"brokers that are not alive: {sorted(dead)}")
        if group.master_id not in wanted:
            return refused(failed, f"the master {group.master_id} cannot leave the SyncStateSet")
        if group.sync_state_set_epoch >= EPOCH_MAX:
            raise InvalidArgumentError(f"{group.broker_name} has used up all epochs")
        after = group.with_set(wanted)
        answer = headers.AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=after.sync_state_set_epoch)
        return Outcome(reply=Reply(header=answer, body=set_of(after)), before=group, after=after)

    # Questions

    def replica_info(self, header: headers.GetReplicaInfoRequestHeader) -> Reply:
        """GET_REPLICA_INFO."""
        group = self.group(header.broker_name)
        if group is None:
            code = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
            return Reply(code, f"there is no broker {header.broker_name[:TEXT_MAX]}")
        master = group.master
        answer = headers.GetReplicaInfoResponseHeader(
            master_broker_id=group.master_id,
            master_address=None if master is None else master.address,
            master_epoch=group.master_epoch,
        )
        return Reply(header=answer, body=set_of(group))

    def sync_state_data(self, broker_names: Iterable[str], now: float) -> Reply:
        """GET_SYNC_STATE_DATA; names that nobody has are left out."""
        table = {}
        for group in filter(None, map(self.group, broker_names)):
            rows = {
                key: ReplicaIdentity(
                    broker_name=group.broker_name,
                    broker_id=key,
                    broker_address=member.address,
                    alive=self.liveness.find(group.broker_name, member, now) is not None,
                )
                for key, member in sorted(group.members.items())
            }
            master = group.master
            table[group.broker_name] = ReplicasInfo(
                master_broker_id=group.master_id,
                master_address=None if master is None else master.address,
                master_epoch=group.master_epoch,
                sync_state_set_epoch=group.sync_state_set_epoch,
                in_sync_replicas=tuple(row for key, row in rows.items() if key in group.sync_state_set),
                not_in_sync_replicas=tuple(row for key, row in rows.items() if key not in group.sync_state_set),
            )
        return Reply(body=BrokerReplicasInfo(replicas_info_table=table))

    # Administration

    def clean_broker_data(self, header: headers.CleanControllerBrokerDataRequestHeader, now: float) -> Outcome:
        """CLEAN_BROKER_DATA: forget the brokers with some ids, or all of a name."""
        refusal = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
        group = self.group(header.broker_name)
        if group is None or (header.cluster_name or group.cluster) != group.cluster:
            return refused(refusal, f"there is no broker {header.broker_name[:TEXT_MAX]}")
        text = (header.broker_controller_ids_to_clean or "").strip()
        try:
            broker_ids = frozenset(int(part) for part in text.split(";") if part) if text else frozenset(group.members)
        except ValueError:
            return refused(refusal, "brokerControllerIdsToClean must be ids separated by semicolons, as in 1;2")
        living = sorted(broker_ids & self.liveness.living(group, now).keys())
        if living and not header.is_clean_living_broker:
            return refused(refusal, f"broker {living[0]} of {group.broker_name} is still alive")
        if not broker_ids & group.members.keys():
            return refused(refusal, f"{group.broker_name} has none of these brokers")
        return Outcome(reply=Reply(), before=group, after=group.without(broker_ids))

    # Inside

    def _known(self, cluster: str, broker_name: str) -> ReplicaGroup | None:
        """The group of a name, one without members too; a name belongs to one cluster."""
        check_names(cluster, broker_name)
        group = self._groups.get(broker_name)
        if group is not None and group.exists and group.cluster != cluster:
            raise InvalidArgumentError(f"broker {broker_name} belongs to cluster {group.cluster}, not to {cluster}")
        return group

    def _has_address(self, group: ReplicaGroup, broker_id: int) -> bool:
        member = group.members.get(broker_id)
        return member is not None and bool(member.address)

    def _stands(self, group: ReplicaGroup, now: float) -> bool:
        """Whether there is a master that is alive, or counts as such."""
        if group.master_id is None:
            return False
        master_id, until = self._presumed.get(group.broker_name, (NO_BROKER, 0.0))
        return (master_id == group.master_id and now < until) or self.liveness.is_alive(group, group.master_id, now)

    def _presume(self, group: ReplicaGroup, now: float) -> None:
        if group.master_id is not None and not self.liveness.is_alive(group, group.master_id, now):
            self._presumed[group.broker_name] = group.master_id, now + self._grace_seconds


def note_heartbeat(
    liveness: Liveness, header: BrokerHeartbeatRequestHeader, now: float, source: Hashable = None
) -> Reply:
    """BROKER_HEARTBEAT at a controller that does not lead: when it will, it knows who is alive."""
    if header.broker_id is None:
        return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, "a heartbeat to a controller needs a brokerId")
    check_names(header.cluster_name, header.broker_name)
    _check_text("address", header.broker_addr)
    if not liveness.note(header, header.broker_id, now, source):
        return Reply(ResponseCode.SYSTEM_BUSY, "too many brokers send heartbeats")
    return Reply()


def _check_text(what: str, text: str) -> None:
    if not 0 < len(text) <= TEXT_MAX or not text.isprintable():
        raise InvalidArgumentError(f"the {what} of a broker must have 1 to {TEXT_MAX} printable characters")
