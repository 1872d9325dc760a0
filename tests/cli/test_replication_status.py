"""What ``cluster status`` makes of the facts about a group."""

from __future__ import annotations

from flaremq.cli.admin.replication_status import Group, Member, rows_of
from flaremq.protocol.bodies.controller import EpochEntry, EpochEntryCache, ReplicaIdentity, ReplicasInfo
from flaremq.protocol.bodies.replication import HAClientRuntimeInfo, HARuntimeInfo

NOW = 1_000_000


def _master(end: int, *, alarm: str | None = None) -> Member:
    ha = HARuntimeInfo(master=True, master_commit_log_max_offset=end, alarm=alarm)
    return Member("C", "a", 0, "h:1", ha, _epochs(3), {})


def _slave(end: int, *, stored_at: int | None = NOW - 250, failure: str | None = None) -> Member:
    client = HAClientRuntimeInfo(max_offset=end, store_timestamp=stored_at, failure=failure)
    return Member("C", "a", 2, "h:2", HARuntimeInfo(master=False, ha_client_runtime_info=client), _epochs(3), {})


def _epochs(*numbers: int) -> EpochEntryCache:
    return EpochEntryCache(epoch_list=tuple(EpochEntry(epoch=number) for number in numbers))


def _replica(number: int, *, alive: bool = True) -> ReplicaIdentity:
    return ReplicaIdentity(broker_name="a", broker_id=number, broker_address=f"h:{number}", alive=alive)


def test_a_slave_that_has_everything_is_not_behind() -> None:
    master, slave = rows_of(Group([_master(500), _slave(500)]), NOW)
    assert (master["role"], slave["role"]) == ("master", "slave")
    assert (slave["lagBytes"], slave["lagMillis"]) == (0, 0)
    assert (master["lagBytes"], master["epoch"], slave["epoch"]) == (None, 3, 3)
    assert (master["alarm"], slave["alarm"]) == ("", "")


def test_the_lag_of_a_slave_is_told_in_bytes_and_time() -> None:
    _, slave = rows_of(Group([_master(500), _slave(400)]), NOW)
    assert (slave["lagBytes"], slave["lagMillis"]) == (100, 250)


def test_the_time_of_a_slave_that_does_not_tell_it_is_unknown() -> None:
    _, slave = rows_of(Group([_master(500), _slave(400, stored_at=None)]), NOW)
    assert (slave["lagBytes"], slave["lagMillis"]) == (100, None)


def test_who_is_in_sync_is_the_controllers_word() -> None:
    controlled = ReplicasInfo(in_sync_replicas=(_replica(1),), not_in_sync_replicas=(_replica(2),))
    master, slave = rows_of(Group([_master(500), _slave(500)], controlled), NOW)
    assert (master["inSync"], slave["inSync"]) == (True, False)
    assert rows_of(Group([_master(500)]), NOW)[0]["inSync"] is None


def test_a_dead_member_that_only_the_controller_knows_is_an_alarm() -> None:
    controlled = ReplicasInfo(in_sync_replicas=(_replica(1),), not_in_sync_replicas=(_replica(3, alive=False),))
    *_, dead = rows_of(Group([_master(500)], controlled), NOW)
    assert (dead["address"], dead["alarm"], dead["inSync"]) == ("h:3", "not alive", False)


def test_failures_and_a_missing_master_are_alarms() -> None:
    (slave,) = rows_of(Group([_slave(400, failure="cannot connect")]), NOW)
    assert slave["alarm"] == "no master; cannot connect"
    assert slave["lagBytes"] is None
    (master,) = rows_of(Group([_master(1, alarm="no controller")], None, "controller: gone"), NOW)
    assert master["alarm"] == "controller: gone; no controller"


def test_a_broker_that_does_not_answer_is_an_alarm() -> None:
    silent = Member("C", "a", 2, "h:2", error="timed out")
    *_, row = rows_of(Group([_master(5), silent]), NOW)
    assert (row["role"], row["alarm"]) == (None, "timed out")
