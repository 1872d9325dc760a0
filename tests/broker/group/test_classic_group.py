"""A classic group end to end: a master, a slave, a name server."""

from __future__ import annotations

import asyncio
import shutil
from math import inf
from pathlib import Path

import pytest

from flaremq.access.inner import signing
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.replication import HARuntimeInfo
from flaremq.protocol.bodies.topic import KVTable
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.options import RemotingOptions
from tests.support.broker_lab import UNIQUE, bodies, until
from tests.support.group_lab import FakeSlave, GroupLab, Member, caught_up, run
from tests.support.ports import free_ports


def test_slave_finds_its_master_and_serves_its_messages(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        for number in range(10):
            await master.sent("T", b"%d" % number)
        slave = await lab.slave()
        await until(lambda: slave.broker.state.topics.find("T") is not None, "the topic is copied")
        await caught_up(slave, master)
        reply = await slave.pull("T")
        assert bodies(reply) == [b"%d" % number for number in range(10)]
        await master.sent("T", b"live")
        await caught_up(slave, master)
        assert bodies(await slave.pull("T", 10)) == [b"live"]

    run(tmp_path, scenario)


def test_sync_master_acknowledges_what_a_slave_has(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(brokerRole="SYNC_MASTER")
        alone = await master.send("T", b"alone")
        assert alone.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert (await master.pull("T")).code == ResponseCode.PULL_NOT_FOUND  # nobody reads what only one has
        slave = await lab.slave()
        await caught_up(slave, master)
        await until(lambda: master.broker.store.max_offset("T", 0) == 1, "the message is shown")
        assert (await master.send("T", b"both")).code == ResponseCode.SUCCESS
        assert slave.log_end == master.log_end
        assert bodies(await master.pull("T")) == [b"alone", b"both"]

    run(tmp_path, scenario)


def test_long_poll_at_a_slave_is_woken_by_what_is_replicated(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        await master.sent("T", b"first")
        slave = await lab.slave()
        await until(lambda: slave.broker.state.topics.find("T") is not None)
        await caught_up(slave, master)
        waiting = asyncio.create_task(slave.pull("T", 1, sysFlag=6, suspendTimeoutMillis=20_000))
        await until(lambda: slave.broker.store_loop.dispatching.awaited.get("T", 0) > 0, "the pull is held")
        await master.sent("T", b"second")
        assert bodies(await waiting) == [b"second"]

    run(tmp_path, scenario)


def test_ha_status_shows_both_sides(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        await master.sent("T", b"first")
        slave = await lab.slave()
        await caught_up(slave, master)

        async def status(member: Member) -> HARuntimeInfo:
            reply = await member.ask(RequestCode.GET_BROKER_HA_STATUS)
            return HARuntimeInfo.from_json(reply.body_bytes)

        seen = await status(master)
        assert (seen.master, seen.master_commit_log_max_offset, seen.in_sync_slave_nums) == (True, master.log_end, 1)
        assert [(line.in_sync, line.transfer_from_where) for line in seen.ha_connection_info] == [
            (True, master.log_end)
        ]
        own = await status(slave)
        assert not own.master
        assert own.ha_client_runtime_info.master_addr == master.broker.ha.advertised_address
        assert own.ha_client_runtime_info.max_offset == slave.log_end

    run(tmp_path, scenario)


def test_sync_master_with_messages_that_no_slave_has_closes_cleanly(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(brokerRole="SYNC_MASTER")
        assert (await master.send("T", b"alone")).code == ResponseCode.SLAVE_NOT_AVAILABLE
        await master.stop()
        assert not (master.folder / "abort").exists()

    run(tmp_path, scenario)


def test_sync_master_starts_without_slaves_and_shows_later_what_they_do_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flaremq.broker.parts._SHOWN_SECONDS_MAX", inf)  # who waits for slaves does not start

    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(brokerRole="SYNC_MASTER")
        assert (await master.send("T", b"alone")).code == ResponseCode.SLAVE_NOT_AVAILABLE
        await master.stop()
        await asyncio.wait_for(master.start(), 20)
        assert (await master.pull("T")).code == ResponseCode.PULL_NOT_FOUND
        slave = await lab.slave()
        await caught_up(slave, master)
        await until(lambda: master.broker.store.max_offset("T", 0) == 1, "the message is shown")

    run(tmp_path, scenario)


@pytest.mark.parametrize("progress", ["a delayed message", "a consumer"])
def test_sync_master_whose_progress_may_lie_behind_what_is_shown_waits_for_slaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, progress: str
) -> None:
    monkeypatch.setattr("flaremq.broker.parts._SHOWN_SECONDS_MAX", 0.0)

    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(brokerRole="SYNC_MASTER")
        properties = UNIQUE + ("DELAY\x0118\x02" if progress == "a delayed message" else "")
        assert (await master.send("T", b"alone", properties=properties)).code == ResponseCode.SLAVE_NOT_AVAILABLE
        if progress == "a consumer":
            master.broker.state.groups.update(SubscriptionGroupConfig(group_name="readers"))
            commit = {"consumerGroup": "readers", "topic": "T", "queueId": 0, "commitOffset": 1}
            assert (await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        end = master.log_end
        await master.stop()
        await master.start()
        assert f"the log is shown to 0 of {end}" in caplog.messages  # it had waited in vain

    run(tmp_path, scenario)


def test_slave_that_becomes_the_master_delivers_what_waits_and_nothing_twice(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        levels = "1s 8s"
        master = await lab.master(messageDelayLevel=levels, flushDelayOffsetInterval=100)
        slave = await lab.slave(messageDelayLevel=levels)
        master.topic("T", 1)
        for number in range(3):
            assert (await master.send("T", b"soon %d" % number, properties=UNIQUE + "DELAY\x011\x02")).code == 0
        await until(lambda: master.broker.store.max_offset("T", 0) == 3, "those of the first level are delivered")
        assert (await master.send("T", b"later", properties=UNIQUE + "DELAY\x012\x02")).code == 0
        await until(lambda: slave.broker.state.schedule.document()["offsetTable"].get(1) == 3, "progress is copied")
        await caught_up(slave, master)
        await master.stop()
        await slave.stop()
        slave.settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": "0"}
        await slave.start()
        await until(lambda: slave.broker.store.max_offset("T", 0) >= 4, "what waited is delivered")
        assert bodies(await slave.pull("T")) == [b"soon 0", b"soon 1", b"soon 2", b"later"]

    run(tmp_path, scenario)


def test_transaction_that_was_open_when_the_master_died_can_be_ended_at_its_successor(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        slave = await lab.slave()
        master.topic("T", 1)
        half = UNIQUE + "TRAN_MSG\x01true\x02PGROUP\x01writers\x02"
        sent = [await master.send("T", b"%d" % number, properties=half) for number in range(2)]

        def ending(reply: RemotingCommand) -> dict[str, object]:
            offset = int(reply.field("msgId")[16:32], 16)
            names = {"producerGroup": "writers", "tranStateTableOffset": reply.field("queueOffset")}
            return names | {"commitLogOffset": offset, "commitOrRollback": 8, "msgId": "", "transactionId": ""}

        assert (await master.ask(RequestCode.END_TRANSACTION, ending(sent[0]))).code == ResponseCode.SUCCESS
        await until(lambda: slave.broker.state.topics.find("T") is not None)
        await caught_up(slave, master)
        await master.stop()
        await slave.stop()
        slave.settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": "0"}
        await slave.start()
        assert bodies(await slave.pull("T")) == [b"0"]
        assert (await slave.ask(RequestCode.END_TRANSACTION, ending(sent[1]))).code == ResponseCode.SUCCESS
        assert bodies(await slave.pull("T")) == [b"0", b"1"]

    run(tmp_path, scenario)


def test_master_that_comes_back_is_told_what_was_consumed_without_it(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        for number in range(5):
            await master.sent("T", b"%d" % number)
        master.broker.state.groups.update(SubscriptionGroupConfig(group_name="readers"))
        slave = await lab.slave()
        await until(lambda: "readers" in slave.broker.state.groups, "the tables are copied")
        await caught_up(slave, master)
        await master.stop()
        commit = {"consumerGroup": "readers", "topic": "T", "queueId": 0, "commitOffset": 4}
        assert (await slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        await master.start()
        await until(lambda: master.broker.state.offsets.find("readers", "T", 0) == 4, "the master knows")
        assert slave.broker.state.offsets.find("readers", "T", 0) == 4

    run(tmp_path, scenario)


def test_named_master_is_followed_without_a_name_server(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        port = free_ports(1)
        master = await lab.master(namesrvAddr="", listenPort=port)
        await master.sent("T", b"x")
        slave = await lab.slave(namesrvAddr="", haMasterAddress=f"127.0.0.1:{port + 1}")
        await until(lambda: slave.broker.state.topics.find("T") is not None, "the tables are copied")
        await caught_up(slave, master)
        assert bodies(await slave.pull("T")) == [b"x"]

    run(tmp_path, scenario)


def test_runtime_info_names_the_role(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        members = {"ASYNC_MASTER": await lab.master(), "SLAVE": await lab.slave(7)}
        for role, member in members.items():
            reply = await member.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
            table = KVTable.from_json(reply.body_bytes).table
            number = "7" if role == "SLAVE" else "0"
            active = str(role != "SLAVE").lower()
            assert (table["brokerRole"], table["brokerId"], table["brokerActive"]) == (role, number, active)

    run(tmp_path, scenario)


def test_gap_at_which_slaves_are_not_waited_for_may_change_while_the_master_runs(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(brokerRole="SYNC_MASTER", slaveTimeout=100)
        slave = await FakeSlave.join(master, acknowledges=False)
        assert (await master.send("T", b"x" * 200)).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        change = await master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"haSlaveFallbehindMax=100")
        assert change.code == ResponseCode.SUCCESS
        assert (await master.send("T", b"x")).code == ResponseCode.SLAVE_NOT_AVAILABLE
        await slave.leave()

    run(tmp_path, scenario)


def test_slave_that_has_served_while_its_master_was_away_follows_it_again(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        await master.sent("T", b"before")
        slave = await lab.slave()
        await until(lambda: slave.broker.state.topics.find("T") is not None)
        await caught_up(slave, master)
        await master.stop()
        assert bodies(await slave.pull("T")) == [b"before"]
        await master.start()
        await master.sent("T", b"after")
        await caught_up(slave, master)
        assert bodies(await slave.pull("T")) == [b"before", b"after"]

    run(tmp_path, scenario)


def test_master_that_lost_its_disk_takes_nothing_from_its_slave(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        for number in range(5):
            await master.sent("T", b"%d" % number)
        slave = await lab.slave()
        await until(lambda: slave.broker.state.topics.find("T") is not None)
        await caught_up(slave, master)
        end = slave.log_end
        await master.stop()
        shutil.rmtree(master.folder)
        await master.start()
        slave.broker.ha.client.pause_max = 0.1
        await until(lambda: slave.broker.ha.client.facts.is_alarm, "it is an alarm")
        await until(lambda: bool(slave.broker.ha.copy.failure), "nothing is copied, with a reason")
        info = HARuntimeInfo.from_json((await slave.ask(RequestCode.GET_BROKER_HA_STATUS)).body_bytes)
        assert info.ha_client_runtime_info.failure
        assert slave.log_end == end and slave.broker.state.topics.find("T") is not None
        assert len(bodies(await slave.pull("T"))) == 5

    run(tmp_path, scenario)


def test_shared_secret_lets_a_slave_in_and_another_one_does_not(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        for name in ("right", "wrong"):
            (tmp_path / name).write_text(f"{name} secret of these brokers")
            (tmp_path / name).chmod(0o600)
        master = await lab.master(haSecretFile=tmp_path / "right")
        await master.sent("T", b"x")
        slave = await lab.slave(1, haSecretFile=tmp_path / "right")
        stranger = await lab.slave(2, haSecretFile=tmp_path / "wrong")
        await caught_up(slave, master)
        await until(lambda: bool(stranger.broker.ha.client.facts.failure), "the stranger is told")
        assert stranger.log_end == 0

    run(tmp_path, scenario)


def test_brokers_with_access_control_share_what_they_sign_with_and_the_port_for_slaves_asks_for_it(
    tmp_path: Path,
) -> None:
    """Nobody else gets a byte, also on this machine."""
    accounts = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    inner = '{"accessKey":"inner","secretKey":"secret-of-servers"}'

    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(**accounts, innerClientAuthenticationCredentials=inner)
        master.client = RemotingClient(signing(RemotingOptions(), master.broker.options.access))
        await master.sent("T", b"of the master alone")
        reader, writer = await asyncio.open_connection("127.0.0.1", master.broker.ha.server.port)
        writer.write(bytes(8))  # all of the log, please
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        slave = await lab.slave(1, **accounts, innerClientAuthenticationCredentials=inner)
        await caught_up(slave, master)
        assert slave.log_end == master.log_end

    run(tmp_path, scenario)
