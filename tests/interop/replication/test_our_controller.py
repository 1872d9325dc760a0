"""Real brokers of RocketMQ 5.5.0 under our controller: registered, elected, in sync, failed over, and back again.

On the way RocketMQ's own mqadmin looks at the controller, and ours prints the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.replication.controller_group import BROKER_NAME
from tests.interop.replication.managed import VERSION, Managed
from tests.interop.replication.talk import OK
from tests.interop.wire import servers
from tests.interop.wire.selection import require
from tests.support.cli import flaremq

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("our-controller")]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    require(servers.why_not(f"rocketmq-{VERSION}"))
    with Managed(tmp_path_factory.mktemp("managed")) as managed:
        managed.start()
        yield managed


def send(group: Managed, broker_id: int, body: bytes) -> int:
    return group.broker(broker_id).talk.send("orders", body).code


def wait_in_sync(group: Managed) -> None:
    group.wait("both brokers to be in sync", lambda: group.in_sync() == {1, 2})


def same(group: Managed, *words: str) -> str:
    """What both tools print about the same; paragraphs in any order, theirs is that of Java's hashes."""
    theirs = group.mqadmin(*words)
    ours = flaremq("mqadmin", *words, "-n", group.name_server)
    assert ours.err == ""
    assert sorted(ours.out.strip().split("\n\n")) == sorted(theirs.strip().split("\n\n"))
    return theirs


def test_first_broker_is_elected_and_the_second_one_gets_into_sync(group: Managed) -> None:
    wait_in_sync(group)
    assert group.master_id == 1
    group.wait("the master to take messages", lambda: send(group, 1, b"first") == OK)


def test_both_tools_say_the_same_about_the_group(group: Managed) -> None:
    wait_in_sync(group)
    text = same(group, "getSyncStateSet", "-a", group.controller, "-b", BROKER_NAME)
    assert "#MasterBrokerId\t1" in text and "#SyncStateSetNums\t2" in text
    assert "#ControllerLeaderId\tn0" in same(group, "getControllerMetaData", "-a", group.controller)
    assert "#Epoch: EpochEntry{epoch=1, startOffset=0" in same(group, "getBrokerEpoch", "-b", BROKER_NAME)


def test_both_tools_change_an_option(group: Managed) -> None:
    change = ("updateControllerConfig", "-a", group.controller, "-k", "notifyBrokerRoleChanged", "-v", "true")
    assert "update controller config success" in same(group, *change)
    assert "CODE: 16" in group.mqadmin(*change[:4], "listenPort", "-v", "1")


def test_both_tools_hand_the_office_over(group: Managed) -> None:
    wait_in_sync(group)
    elect = ("electMaster", "-a", group.controller, "-c", "DefaultCluster", "-bn", BROKER_NAME, "-b")
    theirs = group.mqadmin(*elect, "2")
    assert group.master_id == 2
    wait_in_sync(group)
    group.wait("the new master to take messages", lambda: send(group, 2, b"second") == OK)
    ours = flaremq("mqadmin", *elect, "1", "-n", group.name_server)
    assert group.master_id == 1
    swapped = theirs.replace(group.broker(2).address, group.broker(1).address, 1)
    assert ours.out == swapped.replace("#MasterEpoch\t2", "#MasterEpoch\t3").replace(
        "#SyncStateSetEpoch\t3", "#SyncStateSetEpoch\t5"
    )
    wait_in_sync(group)


def test_killed_master_is_succeeded_and_comes_back_as_a_slave(group: Managed) -> None:
    wait_in_sync(group)
    assert group.master_id == 1
    group.wait("the master to take messages", lambda: send(group, 1, b"third") == OK)
    group.broker(1).kill()
    group.wait("the second broker to be elected", lambda: group.master_id == 2, seconds=10)
    group.wait("it to take messages", lambda: send(group, 2, b"fourth") == OK)
    assert "still alive" in group.mqadmin(
        "cleanBrokerMetadata", "-a", group.controller, "-bn", BROKER_NAME, "-c", "DefaultCluster", "-b", "2"
    )
    group.start_brokers()
    wait_in_sync(group)
    assert group.master_id == 2
    end = group.broker(2).talk.log_end()
    group.wait("the first broker to have it all", lambda: group.broker(1).talk.log_end() == end)
    group.wait("it to know that it is a slave", lambda: group.broker(1).talk.ha_status()["master"] is False)


def test_controller_that_is_restarted_leaves_the_master_in_office(group: Managed) -> None:
    wait_in_sync(group)
    before = group.state()
    group.kill_controller()
    group.start_controller()
    group.wait("both brokers to be heard of", lambda: group.alive() == {1, 2})
    after = group.state()
    assert (after["masterBrokerId"], after["masterEpoch"]) == (before["masterBrokerId"], before["masterEpoch"])
    assert send(group, before["masterBrokerId"], b"fifth") == OK


def test_broker_that_is_gone_is_cleaned_away(group: Managed) -> None:
    group.broker(1).kill()
    group.wait("broker 1 to be missed", lambda: 1 not in group.alive())
    group.wait("broker 1 to leave the set", lambda: group.in_sync() == {2})
    clean = ("cleanBrokerMetadata", "-a", group.controller, "-bn", BROKER_NAME, "-c", "DefaultCluster", "-b", "1")
    assert group.mqadmin(*clean) == f"clear broker {BROKER_NAME} metadata from controller success! \n"
    assert group.known() == {2}
