"""Roles: what the options make of a broker, and what a change of role tells."""

from __future__ import annotations

import pytest

from flaremq.broker.ha_service import sync_rules
from flaremq.broker.options import load_options
from flaremq.broker.role import Role, check_role, role_warnings
from flaremq.errors import InvalidArgumentError
from flaremq.options import parse_assignments
from flaremq.replication.sync_rules import SyncMode


def options_of(*assignments: str):  # type: ignore[no-untyped-def]  # the options of broker and store
    return load_options(None, parse_assignments(list(assignments)))[:2]


@pytest.mark.parametrize(
    ("assignments", "is_master", "broker_id"),
    [
        ([], True, 0),
        (["brokerRole=SYNC_MASTER"], True, 0),
        (["brokerRole=ASYNC_MASTER", "brokerId=5"], True, 0),
        (["brokerRole=SLAVE", "brokerId=5"], False, 5),
    ],
)
def test_options_give_the_role(assignments: list[str], is_master: bool, broker_id: int) -> None:
    broker, store = options_of(*assignments)
    check_role(broker, store)
    role = Role.of(broker, store)
    assert (role.is_master, role.broker_id, role.accepts_writes) == (is_master, broker_id, is_master)


@pytest.mark.parametrize(
    ("assignments", "mode", "copies", "waits"),
    [
        ([], SyncMode.ASYNC, 1, False),
        (["inSyncReplicas=3"], SyncMode.ASYNC, 1, False),
        (["brokerRole=SYNC_MASTER"], SyncMode.ANY_SLAVE, 2, True),
        (["brokerRole=SYNC_MASTER", "inSyncReplicas=1"], SyncMode.COPIES, 1, False),
        (["brokerRole=SYNC_MASTER", "inSyncReplicas=3"], SyncMode.COPIES, 3, True),
        (["brokerRole=SLAVE", "brokerId=1", "inSyncReplicas=3"], SyncMode.ASYNC, 1, False),
    ],
)
def test_options_say_whom_a_master_waits_for(assignments: list[str], mode: SyncMode, copies: int, waits: bool) -> None:
    rules = sync_rules(options_of(*assignments)[1])
    assert (rules.mode, rules.copies, rules.waits) == (mode, copies, waits)


@pytest.mark.parametrize(
    ("assignments", "word"),
    [
        (["brokerRole=SYNC_MASTER", "inSyncReplicas=1"], "waits for no slave"),
        (["brokerId=2"], "brokerId=2 is ignored"),
        (["inSyncReplicas=2"], "only a SYNC_MASTER waits"),
        (["haMasterAddress=10.0.0.1:10912"], "this broker is a master"),
        (["brokerRole=SYNC_MASTER", "enableAutoInSyncReplicas=true"], "without inSyncReplicas: any one slave"),
        (["brokerRole=SYNC_MASTER", "minInSyncReplicas=2"], "minInSyncReplicas=2 has no effect"),
        (["brokerRole=SYNC_MASTER", "inSyncReplicas=2", "minInSyncReplicas=2"], "minInSyncReplicas=2 has no effect"),
    ],
)
def test_contradiction_is_a_warning(assignments: list[str], word: str) -> None:
    (warning,) = role_warnings(*options_of(*assignments))
    assert word in warning


@pytest.mark.parametrize("assignments", [[], ["brokerRole=SYNC_MASTER"], ["brokerRole=SLAVE", "brokerId=1"]])
def test_plain_roles_need_no_warning(assignments: list[str]) -> None:
    assert role_warnings(*options_of(*assignments)) == []


def test_change_is_told_once_and_only_if_it_is_one() -> None:
    role = Role(is_master=False, broker_id=1)
    seen: list[tuple[bool, int, int]] = []
    role.on_change.append(lambda: seen.append((role.is_master, role.broker_id, role.epoch)))
    role.become_master(3)
    role.become_master(3)
    role.become_slave(2, 4)
    assert seen == [(True, 0, 3), (False, 2, 4)]
    with pytest.raises(InvalidArgumentError, match="1 or more"):
        role.become_slave(0, 5)


def test_master_that_holds_writes_says_why_and_takes_them_again() -> None:
    role = Role(is_master=True, broker_id=0)
    role.hold_writes("the controller is not heard")
    assert not role.accepts_writes and role.refusal == "the controller is not heard"
    role.resume_writes()
    assert role.accepts_writes and role.refusal is None
