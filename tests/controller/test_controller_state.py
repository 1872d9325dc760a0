"""Decisions of a controller: ids, registration, elections, the SyncStateSet."""

from __future__ import annotations

import pytest

from flaremq.controller.groups import (
    GROUPS_MAX,
    MEMBERS_MAX,
    Member,
    ReplicaGroup,
    groups_from_json,
    groups_to_json,
)
from flaremq.controller.state import ControllerState
from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.protocol.bodies.controller import BrokerReplicasInfo, ElectMasterResponseBody, SyncStateSet
from flaremq.protocol.headers import controller as headers
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader
from tests.support.controller_lab import CLUSTER, NAME, ControllerLab, address_of


@pytest.fixture
def lab() -> ControllerLab:
    return ControllerLab()


# Ids


def test_first_id_is_1_and_the_next_ones_follow(lab: ControllerLab) -> None:
    assert lab.next_id() == 1
    assert lab.apply(1).code == 0
    assert lab.next_id() == 2
    assert lab.apply(2).code == 0
    assert lab.next_id() == 3


def test_asking_for_the_next_id_reserves_nothing(lab: ControllerLab) -> None:
    assert (lab.next_id(), lab.next_id()) == (1, 1)


def test_id_of_another_check_code_is_refused_and_the_same_one_may_ask_again(lab: ControllerLab) -> None:
    assert lab.apply(1, "a;1").code == 0
    assert lab.apply(1, "b;2").code == 2014
    assert lab.apply(1, "a;1").code == 0
    assert lab.next_id() == 2


@pytest.mark.parametrize("broker_id", [0, -1, 2, 2**63 - 1])
def test_first_id_that_is_not_1_is_refused(lab: ControllerLab, broker_id: int) -> None:
    assert lab.apply(broker_id).code == 2014
    assert lab.state.group(NAME) is None


def test_name_belongs_to_one_cluster(lab: ControllerLab) -> None:
    lab.join(1)
    header = headers.GetNextBrokerIdRequestHeader(cluster_name="Other", broker_name=NAME)
    with pytest.raises(InvalidArgumentError, match="belongs to cluster"):
        lab.state.next_broker_id(header)


# Registration


def test_registration_of_an_unknown_broker_asks_it_to_apply_for_an_id(lab: ControllerLab) -> None:
    assert lab.register(1).code == 2010
    lab.apply(1)
    assert lab.register(2).code == 2010
    assert lab.register(1).code == 0


def test_registration_tells_the_living_master_and_the_set(lab: ControllerLab) -> None:
    first = lab.join(1)
    assert isinstance(first.header, headers.RegisterBrokerToControllerResponseHeader)
    assert first.header.master_broker_id is None
    lab.elect(1)
    second = lab.join(2)
    assert second.header == headers.RegisterBrokerToControllerResponseHeader(
        cluster_name=CLUSTER,
        broker_name=NAME,
        master_broker_id=1,
        master_address=address_of(1),
        master_epoch=1,
        sync_state_set_epoch=1,
    )
    assert second.body == SyncStateSet(sync_state_set=frozenset([1]), sync_state_set_epoch=1)


def test_broker_that_moved_registers_its_new_address_once_its_old_life_is_over(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    assert lab.register(2, "127.0.0.1:9").code == 2014, "broker 2 is alive elsewhere"
    lab.lose(2)
    assert lab.register(2, "127.0.0.1:9").code == 0
    group = lab.state.group(NAME)
    assert group is not None and group.members[2].address == "127.0.0.1:9"


def test_heartbeat_from_another_address_keeps_nobody_alive(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.lose(2)
    lab.heartbeat(2, address="127.0.0.1:9")
    assert lab.alter(1, {1}).code == 0
    assert lab.alter(1, {1, 2}).code == 2006


def test_heartbeat_from_another_address_does_not_end_the_life_of_the_registered_broker(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    assert lab.heartbeat(1, address="127.0.0.1:9").code == 2005
    assert lab.state.abandoned(lab.now) == []


def test_master_that_registers_again_is_succeeded_by_a_member_of_the_set(lab: ControllerLab) -> None:
    """It was restarted so fast that nobody missed it, and may have lost the end of its log."""
    lab.in_sync(1, 2)
    reply = lab.register(1)
    assert isinstance(reply.header, headers.RegisterBrokerToControllerResponseHeader)
    assert (reply.header.master_broker_id, reply.header.master_epoch) == (2, 2)
    assert (lab.master, lab.set_members) == (2, {2})


def test_lone_master_that_registers_again_is_elected_into_a_new_epoch(lab: ControllerLab) -> None:
    lab.in_sync(1)
    reply = lab.register(1)
    assert isinstance(reply.header, headers.RegisterBrokerToControllerResponseHeader)
    assert (reply.header.master_broker_id, lab.master) == (None, None)
    lab.heartbeat(1)
    assert lab.elect(1).code == 0
    assert (lab.master, lab.epochs) == (1, (2, 2))


# Elections


def test_first_election_takes_whoever_asks(lab: ControllerLab) -> None:
    lab.join(1)
    lab.join(2)
    reply = lab.elect(2)
    assert reply.header == headers.ElectMasterResponseHeader(
        master_broker_id=2, master_address=address_of(2), master_epoch=1, sync_state_set_epoch=1
    )
    assert isinstance(reply.body, ElectMasterResponseBody)
    assert reply.body.sync_state_set == {2}
    late = lab.elect(1)
    assert late.code == 2011
    assert late.header == reply.header
    assert late.body == reply.body


def test_first_election_by_the_controller_elects_nobody(lab: ControllerLab) -> None:
    lab.join(1)
    assert lab.elect(-1).code == 2004
    assert lab.master is None


def test_first_master_that_has_sent_no_heartbeat_yet_keeps_its_office_for_a_while(lab: ControllerLab) -> None:
    lab.apply(1)
    lab.register(1)
    assert lab.elect(1).code == 0
    assert lab.look() == []
    lab.now += 10.1
    assert [reply.code for reply in lab.look()] == [2004]


def test_unknown_broker_cannot_be_elected(lab: ControllerLab) -> None:
    assert lab.elect(1).code == 2010
    lab.apply(1)
    assert lab.elect(1).code == 2010, "it has an id but no address"
    lab.register(1)
    assert lab.elect(2).code == 2010
    assert lab.elect(1).code == 0


def test_lost_master_is_succeeded_at_once_and_everybody_alive_is_told(lab: ControllerLab) -> None:
    lab.in_sync(1, 2, 3)
    lab.heartbeat(2, 1, 500)
    lab.heartbeat(3, 1, 400)
    assert [reply.code for reply in lab.lose(1)] == [0]
    assert (lab.master, lab.set_members, lab.epochs) == (2, {2}, (2, 3))
    notice = lab.state.notice(lab.outcomes[-1], lab.now)
    assert notice is not None
    assert notice.addresses == (address_of(2), address_of(3))
    assert notice.header == headers.NotifyBrokerRoleChangedRequestHeader(
        master_address=address_of(2), master_broker_id=2, master_epoch=2, sync_state_set_epoch=3
    )


def test_silent_master_is_succeeded_after_its_own_timeout(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.heartbeat(1, timeout_ms=3000)
    lab.now += 2.9
    lab.heartbeat(2)
    assert lab.look() == []
    lab.now += 0.2
    assert [reply.code for reply in lab.look()] == [0]
    assert lab.master == 2


def test_timeout_that_a_broker_names_is_bounded(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.heartbeat(1, timeout_ms=2**62)
    lab.now += 301
    lab.heartbeat(2)
    lab.look()
    assert lab.master == 2


def test_close_of_an_old_connection_does_not_kill_who_has_a_new_one(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    header = BrokerHeartbeatRequestHeader(
        cluster_name=CLUSTER, broker_name=NAME, broker_addr=address_of(1), broker_id=1
    )
    lab.state.heartbeat(header, lab.now, source="new connection")
    assert lab.lose(1) == []
    assert lab.master == 1


def test_broker_outside_of_the_set_is_not_elected(lab: ControllerLab) -> None:
    lab.in_sync(1)
    lab.join(2)
    lab.heartbeat(2, 1, 2**62)
    assert [reply.code for reply in lab.lose(1)] == [2004]
    assert (lab.master, lab.set_members, lab.epochs) == (None, {1}, (1, 1))
    assert lab.elect(2).code == 2012
    assert lab.elect(2, designate=True).code == 2012
    assert lab.elect().code == 2004
    lab.register(1)
    lab.heartbeat(1)
    assert lab.elect(1).code == 0
    assert lab.epochs == (2, 2)


def test_unclean_election_takes_a_broker_outside_of_the_set_only_if_the_set_is_dead() -> None:
    lab = ControllerLab(unclean=True)
    lab.in_sync(1, 2)
    lab.join(3)
    lab.heartbeat(3, 9, 2**62)
    lab.lose(1)
    assert lab.master == 2
    lab.lose(2)
    assert (lab.master, lab.set_members) == (3, {3})


@pytest.mark.parametrize(
    ("two", "three", "winner"),
    [
        ((1, 3 * 2**31), (1, 5), 2),  # a 32-bit difference would be negative
        ((1, 5), (1, 5 + 2**32), 3),  # a 32-bit difference would be zero
        ((1, 2**40), (2, 5), 3),
        ((1, 5), (1, 5), 2),
    ],
)
def test_longest_log_of_the_highest_epoch_wins_by_64_bits(
    lab: ControllerLab, two: tuple[int, int], three: tuple[int, int], winner: int
) -> None:
    lab.in_sync(1, 2, 3)
    lab.heartbeat(2, *two)
    lab.heartbeat(3, *three)
    lab.lose(1)
    assert lab.master == winner


def test_lower_priority_number_decides_between_equal_logs(lab: ControllerLab) -> None:
    lab.in_sync(1, 2, 3)
    lab.heartbeat(2, 1, 5, priority=7)
    lab.heartbeat(3, 1, 5, priority=3)
    lab.lose(1)
    assert lab.master == 3


def test_administrator_hands_the_office_to_a_living_member_of_the_set_only(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.join(3)
    assert lab.elect(3, designate=True).code == 2012
    assert lab.elect(1, designate=True).code == 2011
    assert lab.elect(2, designate=True).code == 0
    assert (lab.master, lab.epochs) == (2, (2, 3))
    assert lab.elect(1).code == 2011


def test_restarted_controller_leaves_masters_in_office_until_they_had_time_to_be_heard() -> None:
    lab = ControllerLab()
    lab.in_sync(1, 2)
    restored = groups_from_json(groups_to_json(lab.state.groups.values()))
    later = ControllerLab(ControllerState(restored.values(), now=100.0))
    later.heartbeat(2, 1, 5)
    assert later.look() == []
    assert later.elect(2).code == 2011
    later.now += 10.0
    later.heartbeat(2, 1, 5)
    assert [reply.code for reply in later.look()] == [0]
    assert (later.master, later.epochs) == (2, (2, 3))


# The SyncStateSet


def test_set_grows_and_shrinks_by_the_master_with_the_right_epochs(lab: ControllerLab) -> None:
    lab.in_sync(1)
    lab.join(2)
    reply = lab.alter(1, {1, 2})
    assert reply.header == headers.AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=2)
    assert reply.body == SyncStateSet(sync_state_set=frozenset([1, 2]), sync_state_set_epoch=2)
    assert lab.alter(1, {1}).code == 0
    assert lab.epochs == (1, 3)


def test_proposals_that_must_not_pass_are_refused_by_their_code(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.join(3)
    lab.lose(3)
    assert lab.alter(1, {1, 2}).code == 2013
    assert lab.alter(2, {2}).code == 2002
    assert lab.alter(1, {1}, epoch=0).code == 2000
    assert lab.alter(1, {1}, epoch=2).code == 2000
    assert lab.alter(1, {1}, set_epoch=1).code == 2001
    assert lab.alter(1, {1, 2, 9}).code == 2003
    assert lab.alter(1, {1, 2, 3}).code == 2006
    assert lab.alter(1, {2}).code == 2013
    assert lab.alter(1, set()).code == 2013
    assert lab.alter(1, {1}, name="nobody", epoch=1, set_epoch=1).code == 2013
    assert (lab.set_members, lab.epochs) == ({1, 2}, (1, 2))


def test_dead_member_leaves_although_another_one_is_dead_too(lab: ControllerLab) -> None:
    lab.in_sync(1, 2, 3)
    lab.lose(2)
    lab.lose(3)
    assert lab.alter(1, {1, 3}).code == 0
    assert lab.alter(1, {1}).code == 0


def test_deposed_master_cannot_change_the_set(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.elect(2, designate=True)
    assert lab.alter(1, {1, 2}).code == 2002
    assert lab.alter(1, {1}, epoch=1, set_epoch=2).code == 2002


# Questions


def test_replica_info_tells_the_master_or_that_the_name_is_unknown(lab: ControllerLab) -> None:
    question = headers.GetReplicaInfoRequestHeader(broker_name=NAME)
    assert lab.state.replica_info(question).code == 2008
    lab.in_sync(1)
    assert lab.state.replica_info(question).header == headers.GetReplicaInfoResponseHeader(
        master_broker_id=1, master_address=address_of(1), master_epoch=1
    )
    lab.lose(1)
    assert lab.state.replica_info(question).header == headers.GetReplicaInfoResponseHeader(master_epoch=1)


def test_sync_state_data_shows_who_is_in_sync_and_who_is_alive(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.join(3)
    lab.lose(2)
    body = lab.state.sync_state_data([NAME, "nobody"], lab.now).body
    assert isinstance(body, BrokerReplicasInfo)
    info = body.replicas_info_table[NAME]
    assert list(body.replicas_info_table) == [NAME]
    assert [(row.broker_id, row.alive) for row in info.in_sync_replicas] == [(1, True), (2, False)]
    assert [(row.broker_id, row.alive) for row in info.not_in_sync_replicas] == [(3, True)]


# Cleaning


def test_living_brokers_are_cleaned_away_only_on_demand(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    assert lab.clean().code == 2009
    assert lab.clean("2").code == 2009
    assert lab.clean("x").code == 2009
    assert lab.clean("7").code == 2009
    assert lab.clean(name="nobody").code == 2009
    lab.lose(2)
    assert lab.clean("2").code == 0
    assert lab.set_members == {1}
    assert lab.clean(living=True).code == 0
    assert lab.state.group(NAME) is None


def test_cleaned_name_never_uses_an_id_or_an_epoch_again(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.clean(living=True)
    question = headers.GetReplicaInfoRequestHeader(broker_name=NAME)
    assert lab.state.replica_info(question).code == 2008
    assert lab.register(1).code == 2010
    assert lab.elect(1).code == 2010
    assert lab.next_id() == 3
    lab.join(3)
    assert lab.elect(3).code == 0
    assert lab.epochs == (2, 4)


def test_cleaning_the_only_broker_in_sync_leaves_the_others_without_a_clean_election(lab: ControllerLab) -> None:
    lab.in_sync(1)
    lab.join(2)
    lab.lose(1)
    assert lab.clean("1").code == 0
    assert lab.elect(2).code == 2012


# Bounds, form


def test_names_addresses_and_counts_are_bounded(lab: ControllerLab) -> None:
    for name in ("", "x" * 256, "a\nb", "\x00"):
        with pytest.raises(InvalidArgumentError):
            lab.next_id(name)
    with pytest.raises(InvalidArgumentError):
        lab.apply(1, "c" * 513)
    lab.apply(1)
    with pytest.raises(InvalidArgumentError):
        lab.register(1, "a" * 513)
    for broker_id in range(2, MEMBERS_MAX + 1):
        lab.apply(broker_id)
    with pytest.raises(InvalidArgumentError, match="takes no more"):
        lab.apply(MEMBERS_MAX + 1)
    groups = [ReplicaGroup(cluster=CLUSTER, broker_name=f"n{number}") for number in range(GROUPS_MAX)]
    full = ControllerLab(ControllerState(groups, now=0.0))
    with pytest.raises(InvalidArgumentError, match="takes no more"):
        full.apply(1, name="one more")


def test_heartbeat_without_id_is_refused(lab: ControllerLab) -> None:
    header = BrokerHeartbeatRequestHeader(cluster_name=CLUSTER, broker_name=NAME, broker_addr="a:1")
    assert lab.state.heartbeat(header, lab.now).code == 2005


def test_decision_changes_nothing_until_it_is_committed(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    before = groups_to_json(lab.state.groups.values())
    lab.state.source_closed((NAME, 1))
    decided = lab.state.elect_by_itself(NAME, lab.now)
    assert decided.after is not None and decided.after.master_id == 2
    assert groups_to_json(lab.state.groups.values()) == before
    lab.state.commit(decided, lab.now)
    assert groups_to_json(lab.state.groups.values()) != before
    with pytest.raises(AssertionError, match="gone"):
        lab.state.commit(decided, lab.now)


def test_state_comes_back_from_its_json(lab: ControllerLab) -> None:
    lab.in_sync(1, 2)
    lab.join(1, "broker-b")
    data = groups_to_json(lab.state.groups.values())
    assert groups_from_json(data) == dict(lab.state.groups)
    assert groups_from_json(groups_to_json([])) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version":2,"groups":[]}',
        b'{"version":1,"groups":{}}',
        b'{"version":1,"groups":[1]}',
        b'{"version":1,"groups":[{}]}',
    ],
)
def test_document_that_is_none_of_ours_is_corruption(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        groups_from_json(data)


def test_group_that_breaks_an_invariant_cannot_be_made() -> None:
    member = Member(1, "a:1", "c")
    good = ReplicaGroup(cluster="c", broker_name="b", next_broker_id=2, members={1: member})
    with pytest.raises(CorruptionError):
        ReplicaGroup(cluster="c", broker_name="b", next_broker_id=2, members={1: member}, master_id=1)
    with pytest.raises(CorruptionError):
        good.with_set(frozenset([2]))
    with pytest.raises(CorruptionError):
        ReplicaGroup(cluster="c", broker_name="b", next_broker_id=1, members={1: member})
    elected = good.with_master(1)
    with pytest.raises(CorruptionError):
        good.check_follows(elected)
