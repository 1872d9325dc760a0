"""Brokers under a controller: roles, SyncStateSet, failover, return, each over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from math import inf
from pathlib import Path

import pytest

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.errors import UnavailableError
from flaremq.protocol.bodies.controller import OPEN_END, EpochEntryCache
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.controller import ElectMasterRequestHeader, NotifyBrokerRoleChangedRequestHeader
from tests.support.failover_lab import FailoverLab, until

OK = 0
FLUSH_SLAVE_TIMEOUT = 12
SERVICE_NOT_AVAILABLE = 14


def _run(path: Path, scenario: Callable[[FailoverLab], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        async with FailoverLab(path, **settings) as lab:
            await asyncio.wait_for(scenario(lab), 50)

    asyncio.run(main())


def test_the_first_broker_leads_and_the_second_follows_and_joins_the_set(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        first = await lab.start(0)
        assert first.role.is_master
        assert (await lab.send(first, b"alone")).code == OK
        second = await lab.start(1)
        assert not second.role.is_master
        await lab.until_in_sync(2)
        assert (await lab.send(first, b"two copies")).code == OK
        assert second.store_loop.driver.appended == first.store_loop.driver.appended
        assert (await lab.send(second, b"not here")).code == SERVICE_NOT_AVAILABLE
        await lab.until_equal(2)

    _run(tmp_path, scenario)


def test_a_master_that_ends_is_followed_by_a_broker_with_everything_acknowledged(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(3)
        for number in range(20):
            assert (await lab.send(master, b"before %d" % number)).code == OK
        end = master.store_loop.driver.appended
        await lab.stop(lab.number_of(master))
        await until(lambda: any(broker.role.accepts_writes for broker in lab.brokers.values()), "a new master")
        successor = lab.master()
        assert successor.role.epoch == 2
        assert successor.store_loop.driver.appended == end
        assert (await lab.send(successor, b"after")).code == OK
        await lab.start(0)
        await lab.until_in_sync(3)
        await lab.until_equal(3)

    _run(tmp_path, scenario)


def test_ids_and_epochs_survive_a_restart(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        assert (await lab.send(master, b"one")).code == OK
        for number in (0, 1):
            await lab.stop(number)
        brokers = await asyncio.gather(lab.start(0), lab.start(1))  # the first was out of sync last: it waits
        modes = [broker.controller_mode for broker in brokers]
        assert [mode.membership.broker_id for mode in modes if mode is not None] == [1, 2]
        assert lab.master() is brokers[1]
        await lab.until_in_sync(2)
        assert lab.master().role.epoch > 1
        await lab.until_equal(2)

    _run(tmp_path, scenario)


def test_a_learner_has_everything_and_is_neither_waited_for_nor_elected(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start(0)
        lab.settings["asyncLearner"] = "true"
        learner = await lab.start(1)
        for number in range(20):
            assert (await lab.send(master, b"message %d" % number)).code == OK
        end = master.store_loop.driver.appended
        await until(lambda: learner.store_loop.driver.appended == end, "the learner has everything")
        state = master.ha.replicas.sync_state
        assert state is not None and state.members == {1}
        await lab.stop(0)
        header = ElectMasterRequestHeader(
            cluster_name=learner.options.broker_cluster_name, broker_name=learner.options.broker_name, broker_id=-1
        )
        election = RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, header.encode())
        elected = await lab.client.request(lab.controller.address, election, 10.0)
        assert elected.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
        assert not learner.role.accepts_writes

    _run(tmp_path, scenario)


def test_an_empty_broker_may_fetch_the_last_log_file_only(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start(0)
        for number in range(15):
            assert (await lab.send(master, b"%X" % number * 100_000, properties="KEYS\x01k")).code == OK
        lab.settings["syncFromLastFile"] = "true"
        second = await lab.start(1)
        await lab.until_in_sync(2)
        driver = master.store_loop.driver
        assert driver.min_offset == 0 < second.store_loop.driver.min_offset == driver.appended // 1_048_576 * 1_048_576
        assert (await lab.send(master, b"two copies")).code == OK
        await lab.stop(0)
        await until(lambda: second.role.accepts_writes, "the second one leads")
        assert (await lab.send(second, b"after")).code == OK

    _run(tmp_path, scenario)


def test_a_master_without_controller_stops_taking_messages_when_its_lease_ends(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start(0)
        assert (await lab.send(master, b"one")).code == OK
        await lab.controller.stop()
        await until(lambda: not master.role.accepts_writes, "the end of the lease")
        assert (await lab.send(master, b"two")).code == SERVICE_NOT_AVAILABLE
        await lab.start_controller()
        await until(lambda: master.role.accepts_writes, "the controller's word")
        assert (await lab.send(master, b"three")).code == OK

    _run(tmp_path, scenario)


async def _elect(lab: FailoverLab, broker: BrokerService) -> None:
    """As an administrator wants it."""
    assert broker.controller_mode is not None
    header = ElectMasterRequestHeader(
        cluster_name=broker.options.broker_cluster_name,
        broker_name=broker.options.broker_name,
        broker_id=broker.controller_mode.membership.broker_id or 0,
        designate_elect=True,
    )
    request = RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, header.encode())
    assert (await lab.client.request(lab.controller.address, request)).code == OK


def test_a_master_that_is_deposed_while_it_takes_messages_follows_and_no_acknowledged_one_is_lost(
    tmp_path: Path,
) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        other = next(broker for broker in lab.brokers.values() if broker is not master)
        acknowledged: list[bytes] = []

        async def produce(name: str) -> None:
            for number in count():
                body = f"{name}-{number:06d}".encode()
                try:
                    reply = await lab.send(master, body)
                except UnavailableError:
                    return  # its ports closed
                if reply.code == SERVICE_NOT_AVAILABLE:
                    return
                if reply.code == OK:
                    acknowledged.append(body)

        producers = [asyncio.create_task(produce(f"p{number}")) for number in range(8)]
        await until(lambda: len(acknowledged) >= 50, "some traffic")
        await _elect(lab, other)
        await asyncio.gather(*producers)
        await until(lambda: other.role.accepts_writes and not master.role.is_master, "the change of roles")
        assert (await lab.send(other, b"after")).code == OK
        await lab.until_in_sync(2)
        await lab.until_equal(2)
        log = lab.log_bytes(lab.number_of(master))
        assert [body for body in acknowledged if body not in log] == []

    _run(tmp_path, scenario)


def test_what_only_a_dead_master_had_is_set_aside_and_cut_when_it_returns(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        assert (await lab.send(master, b"held by both")).code == OK
        slave = lab.brokers[1]
        lab.keep_set(master)  # or the master would go on alone, with the controller's consent
        await slave.ha.client.stop()
        end = slave.store_loop.driver.appended
        assert (await lab.send(master, b"only here")).code == FLUSH_SLAVE_TIMEOUT
        await lab.stop(0)
        await until(lambda: slave.role.accepts_writes, "a new master")
        assert slave.store_loop.driver.appended == end
        assert (await lab.send(slave, b"the other history")).code == OK
        returned = await lab.start(0)
        await lab.until_in_sync(2)
        await lab.until_equal(2)
        assert b"only here" not in lab.log_bytes(0)
        saved = b"".join(
            path.read_bytes() for path in Path(returned.path, "flaremq.saved").rglob("*") if path.is_file()
        )
        assert b"only here" in saved
        assert (await lab.send(slave, b"again by both")).code == OK

    _run(tmp_path, scenario, slaveTimeout="200")


def test_a_log_is_cut_once_and_its_broker_is_known_to_the_name_servers_again_however_long_closing_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the broker closes for a cut the master goes on answering where its log is. To follow it then would bring
    the same cut again, to be made when the log has new bytes behind it that were promised already."""
    cuts: list[int] = []
    reopen = BrokerService.reopen

    async def reopen_slowly(broker: BrokerService, cut_at: int | None = None) -> None:
        if cut_at is not None:
            cuts.append(cut_at)
            await asyncio.sleep(0.5)
        await reopen(broker, cut_at)

    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        slave = lab.brokers[1]
        lab.keep_set(master)
        await slave.ha.client.stop()
        assert (await lab.send(master, b"only here")).code == FLUSH_SLAVE_TIMEOUT
        await lab.stop(0)
        await until(lambda: slave.role.accepts_writes, "a new master")
        assert (await lab.send(slave, b"the other history")).code == OK
        monkeypatch.setattr(BrokerService, "reopen", reopen_slowly)
        returned = await lab.start(0)
        await lab.until_in_sync(2)
        await lab.until_equal(2)
        await until(lambda: returned.registration.registered_at, "its registration")
        assert len(cuts) == 1

    _run(tmp_path, scenario, slaveTimeout="200")


def test_a_broker_whose_store_was_made_writable_in_vain_follows_the_next_master(tmp_path: Path) -> None:
    """As it is when a broker fails to take the role of master half-way, and another one is elected."""

    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(3)
        failed, successor = lab.brokers[2], lab.brokers[1]
        failed.ha.follow(None, None)
        failed.store_loop.driver.become_writable()
        assert (await lab.send(master, b"before")).code in (OK, FLUSH_SLAVE_TIMEOUT)
        await _elect(lab, successor)
        await until(lambda: successor.role.accepts_writes, "the change of roles")
        assert (await lab.send(successor, b"after")).code in (OK, FLUSH_SLAVE_TIMEOUT)
        await lab.until_in_sync(3)
        await lab.until_equal(3)

    _run(tmp_path, scenario, slaveTimeout="300")


def test_a_notification_from_a_stranger_changes_nothing(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        header = NotifyBrokerRoleChangedRequestHeader(
            master_address="127.0.0.1:1", master_broker_id=7, master_epoch=99, sync_state_set_epoch=99
        )
        request = RemotingCommand.request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header.encode())
        for broker in lab.brokers.values():
            assert (await lab.client.request(broker.address, request)).code == OK
        for number in range(20):
            assert (await lab.send(master, b"still here %d" % number)).code == OK
        assert master.role.epoch == 1
        await lab.until_equal(2)

    _run(tmp_path, scenario)


def test_sends_are_refused_while_fewer_are_in_sync_than_must_be(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start(0)
        reply = await lab.send(master, b"alone")
        assert (reply.code, reply.remark) == (1, "in-sync replicas not enough")
        await lab.start(1)
        await lab.until_in_sync(2)
        assert (await lab.send(master, b"together")).code == OK
        await lab.stop(1)
        await lab.until_in_sync(1)
        assert (await lab.send(master, b"alone again")).code == 1

    _run(tmp_path, scenario, minInSyncReplicas="2", inSyncReplicas="2")


def test_slaves_join_a_new_master_while_it_waits_for_them_to_have_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flaremq.broker.parts._SHOWN_SECONDS_MAX", inf)  # it does not go on without them

    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(3)
        for number in range(20):
            assert (await lab.send(master, b"before %d" % number)).code == OK
        await lab.stop(lab.number_of(master))
        await until(lambda: any(broker.role.accepts_writes for broker in lab.brokers.values()), "a new master")
        await lab.until_in_sync(2)
        successor = lab.master()
        assert successor.store.max_offset("T", 0) == 20
        assert (await lab.send(successor, b"after")).code == OK

    _run(tmp_path, scenario, minInSyncReplicas="2", inSyncReplicas="2")


def test_the_epochs_of_a_log_can_be_asked_for(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start(0)
        assert (await lab.send(master, b"one")).code == OK
        reply = await lab.client.request(master.address, RemotingCommand.request(RequestCode.GET_BROKER_EPOCH_CACHE))
        cache = EpochEntryCache.from_json(reply.body_bytes)
        assert (cache.broker_id, cache.max_offset) == (1, master.store_loop.driver.appended)
        assert [(entry.epoch, entry.start_offset, entry.end_offset) for entry in cache.epoch_list] == [(1, 0, OPEN_END)]
        assert Path(master.path, "epochFileCheckpoint").read_text() == "1\n1725254278\n1-0\n"
        assert Path(master.path, "brokerIdentity").read_text() == "DefaultCluster#broker-a#1"

    _run(tmp_path, scenario)


def test_a_master_that_cannot_store_any_more_gives_up_its_role(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        other = lab.brokers[1]
        assert (await lab.send(master, b"before")).code == OK
        lab.break_disk(master)
        assert (await lab.send(master, b"never durable")).code == SERVICE_NOT_AVAILABLE
        await until(lambda: other.role.accepts_writes, "a new master")
        assert (await lab.send(other, b"after")).code == OK

    _run(tmp_path, scenario)


def test_a_topic_made_just_before_the_master_ends_is_known_to_the_next(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        other = lab.brokers[1]
        await until(lambda: other.ha.copy.copied_ms > 0, "the first copy of the tables")
        assert (await lab.send(master, b"of a new topic")).code == OK
        await lab.stop(0)
        await until(lambda: other.role.accepts_writes, "a new master")
        found = other.state.topics.find("T")
        assert found is not None
        assert found.read_queue_nums >= 1
        assert other.store.max_offset("T", 0) == 1

    _run(tmp_path, scenario)


def test_a_broker_that_could_not_be_opened_again_tries_again_later(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        master = await lab.start_all(2)
        assert (await lab.send(master, b"one")).code == OK
        lab.fail_to_open_once(master)
        await _elect(lab, lab.brokers[1])
        await until(lambda: not master.is_open, "the failure")
        await until(lambda: master.is_open and not master.role.is_master, "the next try")
        await lab.until_in_sync(2)
        assert (await lab.send(lab.brokers[1], b"two")).code == OK
        await lab.until_equal(2)

    _run(tmp_path, scenario)


def test_a_broker_that_finds_no_controller_says_so_and_takes_no_messages(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        await lab.controller.stop()
        options = lab.options_of(0)
        broker = BrokerService(tmp_path / "store-0", *load_options(None, options))
        await broker.start()
        lab.brokers[0] = broker
        assert (await lab.send(broker, b"one")).code == SERVICE_NOT_AVAILABLE
        assert broker.ha.runtime_info().alarm == f"no controller answers at {options['controllerAddr']}"
        assert broker.registration.registered_at == []
        await lab.start_controller()
        await until(lambda: broker.role.accepts_writes, "the election")
        assert (await lab.send(broker, b"two")).code == OK

    _run(tmp_path, scenario)


def test_a_store_that_was_alone_before_is_copied_whole_to_the_replicas_it_gets(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        alone = {**lab.options_of(0), "enableControllerMode": "false", "controllerAddr": ""}
        broker = BrokerService(tmp_path / "store-0", *load_options(None, alone))
        await broker.start()
        for number in range(10):
            assert (await lab.send(broker, b"from before %d" % number)).code == OK
        await broker.stop()
        await lab.start_all(2)
        await lab.until_equal(2)
        assert b"from before 9" in lab.log_bytes(1)
        await lab.stop(0)
        successor = lab.brokers[1]
        await until(lambda: successor.role.accepts_writes, "a new master")
        assert (await lab.send(successor, b"after")).code == OK

    _run(tmp_path, scenario)


def test_a_store_with_another_past_does_not_join(tmp_path: Path) -> None:
    async def scenario(lab: FailoverLab) -> None:
        for number, words in ((0, (b"one", b"two", b"three")), (1, (b"uno",))):
            alone = {**lab.options_of(number), "enableControllerMode": "false", "controllerAddr": ""}
            broker = BrokerService(tmp_path / f"store-{number}", *load_options(None, alone))
            await broker.start()
            for word in words:
                assert (await lab.send(broker, word)).code == OK
            await broker.stop()
        master = await lab.start(0)
        stranger = await lab.start(1)
        await until(lambda: "other bytes" in stranger.ha.client.facts.failure, "the refusal")
        assert (await lab.send(master, b"four")).code == OK
        assert stranger.store_loop.driver.appended < master.store_loop.driver.appended
        assert Path(stranger.path, "epochFileCheckpoint").exists() is False

    _run(tmp_path, scenario)
