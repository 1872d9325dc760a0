"""A slave follows its master: first connect, over file ends, live, after breaks. Files become equal byte for byte."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.replication import ha_connection, master_link
from flaremq.broker.replication.ha_connection import HAConnectionFacts
from flaremq.errors import StoreIOError
from flaremq.replication.epochs import EpochTable
from flaremq.replication.sync_rules import SyncMode, SyncRules
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.status import PutMessageStatus
from tests.support.broker_lab import until
from tests.support.replication_lab import FILE, Node, Proxy, run, same_stores

BOTH = pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
ANY_SLAVE = SyncRules(mode=SyncMode.ANY_SLAVE)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave is far behind, and the thread's, from 20 KiB on."""
    monkeypatch.setattr(ha_connection, "FAR_BYTES", 20 << 10)
    monkeypatch.setattr(ha_connection, "NEAR_BYTES", 4 << 10)
    monkeypatch.setattr(ha_connection, "BATCH_BYTES", 50 << 10)


@pytest.fixture(params=["loop", "thread"])
def appender(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a slave appends, whatever the size of a read."""
    monkeypatch.setattr(master_link, "LARGE_BYTES", 1 if request.param == "thread" else 1 << 40)


@BOTH
@pytest.mark.usefixtures("appender")
def test_empty_slave_gets_the_whole_log_over_file_ends(tmp_path: Path, flush: str) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", flush_disk_type=flush) as master,
            Node(tmp_path / "b", is_slave=True, flush_disk_type=flush) as slave,
        ):
            master.append(900)
            assert master.end > 3 * FILE
            slave.follow(master)
            await same_stores(master, slave)

    run(scenario)


@BOTH
@pytest.mark.usefixtures("far")
def test_slave_that_is_far_behind_gets_old_files_from_a_thread_and_the_rest_from_the_loop(
    tmp_path: Path, flush: str
) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", flush_disk_type=flush) as master,
            Node(tmp_path / "b", is_slave=True, flush_disk_type=flush) as slave,
        ):
            master.append(1500)
            slave.follow(master)
            caught_up = []
            for _ in range(30):
                master.append(10)
                caught_up += [slave.is_catching_up for slave in master.server.slaves]
                await asyncio.sleep(0.002)
            await same_stores(master, slave)
            assert any(caught_up)
            await until(lambda: not master.server.slaves[0].is_catching_up, "the loop takes over")
            await master.put(b"the last one")
            await same_stores(master, slave)

    run(scenario)


@BOTH
@pytest.mark.usefixtures("appender")
def test_what_is_appended_later_follows_at_once(tmp_path: Path, flush: str) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", flush_disk_type=flush) as master,
            Node(tmp_path / "b", is_slave=True, flush_disk_type=flush) as slave,
        ):
            slave.follow(master)
            for _ in range(20):
                await master.put(b"message")
                await slave.has(master.end)
            await same_stores(master, slave)

    run(scenario)


@BOTH
@pytest.mark.usefixtures("appender")
def test_put_of_a_sync_master_is_answered_when_the_slave_has_it(tmp_path: Path, flush: str) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", rules=ANY_SLAVE, flush_disk_type=flush) as master,
            Node(tmp_path / "b", is_slave=True, flush_disk_type=flush) as slave,
        ):
            alone = await master.put(b"nobody is there")
            assert alone.status is PutMessageStatus.SLAVE_NOT_AVAILABLE
            slave.follow(master)
            await until(lambda: bool(master.server.slaves), "the slave is connected")
            for number in range(50):
                result = await master.put(b"%d" % number)
                assert result.status is PutMessageStatus.PUT_OK
                assert slave.client.log.held >= result.physical_offset + result.size
            await same_stores(master, slave)

    run(scenario)


def test_slave_of_a_slave_gets_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a") as master,
            Node(tmp_path / "b", is_slave=True) as slave,
            Node(tmp_path / "c", is_slave=True) as third,
        ):
            third.follow(slave)
            slave.follow(master)
            master.append(400)
            await same_stores(master, slave)
            master.append(100)
            await same_stores(master, third)

    run(scenario)


@BOTH
def test_slave_goes_on_where_it_was_after_a_break(tmp_path: Path, flush: str) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", flush_disk_type=flush) as master,
            Node(tmp_path / "b", is_slave=True, flush_disk_type=flush) as slave,
            Proxy(master) as proxy,
        ):
            slave.follow(proxy)
            for _ in range(5):
                master.append(50)
                await slave.has(master.end)
                proxy.cut()
            await same_stores(master, slave)
            assert proxy.connections >= 5

    run(scenario)


@pytest.mark.usefixtures("far", "appender")
def test_connection_that_breaks_anywhere_in_the_stream_leaves_a_log_that_ends_at_a_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", flush_disk_type="ASYNC_FLUSH") as master,
            Node(tmp_path / "b", is_slave=True, flush_disk_type="ASYNC_FLUSH") as slave,
            Proxy(master) as proxy,
        ):
            master.append(1000)
            proxy.cut_after = 50_001
            slave.client.pause_max = 0.01
            slave.follow(proxy)
            await until(lambda: slave.end >= FILE, "the slave gets on")
            proxy.cut_after = None
            await same_stores(master, slave)
            assert proxy.connections >= 2

    run(scenario)


def test_slave_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master:
            for _ in range(3):
                async with Node(tmp_path / "b", is_slave=True) as slave:
                    slave.follow(master)
                    master.append(200)
                    await same_stores(master, slave)

    run(scenario)


def test_another_master_is_followed_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a") as master,
            Node(tmp_path / "b", is_slave=True) as middle,
            Node(tmp_path / "c", is_slave=True) as slave,
        ):
            middle.follow(master)
            slave.follow(master)
            master.append(20)
            await same_stores(master, slave)
            slave.follow(middle)
            await until(lambda: bool(middle.server.slaves), "the slave has changed over")
            await until(lambda: len(master.server.slaves) == 1, "and left its old master")
            master.append(20)
            await same_stores(master, slave)
            slave.follow(None)
            await until(lambda: not middle.server.slaves, "the slave follows nobody")

    run(scenario)


@pytest.mark.usefixtures("appender")
def test_nothing_is_appended_once_nobody_is_followed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", flush_disk_type="ASYNC_FLUSH") as master:
            master.append(2000)
            for number in range(10):
                async with Node(tmp_path / f"b{number}", is_slave=True, flush_disk_type="ASYNC_FLUSH") as slave:
                    slave.follow(master)
                    await until(lambda slave=slave, least=number * 20_000: slave.end > least, "bytes flow")
                    slave.follow(None)
                    end = slave.end
                    await until(lambda: not master.server.slaves, "the slave is gone")
                    await asyncio.sleep(0.01)
                    assert slave.end == end
                    slave.follow(master)
                    await same_stores(master, slave)

    run(scenario)


def test_master_that_is_left_while_the_connection_to_it_is_made_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        connect, goes_on = loop.create_connection, asyncio.Event()

        async def connect_slowly(*arguments: Any, **named: Any) -> Any:
            made = await connect(*arguments, **named)
            await goes_on.wait()
            return made

        monkeypatch.setattr(loop, "create_connection", connect_slowly)
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            master.append(20)
            slave.follow(master)
            await until(lambda: slave.end == master.end, "bytes flow")
            slave.follow(None)
            end = slave.end
            goes_on.set()
            master.append(20)
            await until(lambda: not master.server.slaves, "the slave is gone")
            assert slave.end == end

    run(scenario)


def test_slow_slave_does_not_stop_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", rules=ANY_SLAVE) as master,
            Node(tmp_path / "b", is_slave=True) as slow,
            Node(tmp_path / "c", is_slave=True) as quick,
            Proxy(master) as proxy,
        ):
            slow.follow(proxy)
            quick.follow(master)
            await until(lambda: len(master.server.slaves) == 2, "both are connected")
            proxy.may_pass.clear()
            for _ in range(10):
                master.append(300)
                result = await master.put(b"x")
                assert result.status is PutMessageStatus.PUT_OK
            await same_stores(master, quick)
            assert slow.end < master.end
            proxy.may_pass.set()
            await same_stores(master, slow)

    run(scenario)


def test_flow_control_slows_a_transfer_down_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        limit = 400_000
        async with (
            Node(
                tmp_path / "a",
                flush_disk_type="ASYNC_FLUSH",
                ha_flow_control_enable=True,
                max_ha_transfer_byte_in_second=limit,
                ha_transfer_batch_size=4096,
            ) as master,
            Node(tmp_path / "b", is_slave=True) as slave,
        ):
            master.append(600)
            began = asyncio.get_running_loop().time()
            slave.follow(master)
            await same_stores(master, slave)
            seconds = asyncio.get_running_loop().time() - began
            assert master.end <= limit * (seconds + 0.2)

    run(scenario)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("who", ["master", "slave"])
def test_either_end_can_stop_in_the_middle_of_a_transfer(tmp_path: Path, who: str) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", flush_disk_type="ASYNC_FLUSH") as master:
            master.append(2000)
            async with Node(tmp_path / "b", is_slave=True) as slave, Proxy(master) as proxy:
                slave.follow(proxy)
                await until(lambda: slave.end > 0, "the transfer has begun")
                proxy.may_pass.clear()
                if who == "master":
                    await master.server.stop()
                else:
                    await slave.client.stop()

    run(scenario)


def test_facts_tell_how_it_goes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            assert slave.client.facts.master_address is None
            slave.follow(master)
            master.append(50)
            await same_stores(master, slave)
            await until(lambda: master.server.slaves[0].acknowledged == master.end, "everything is acknowledged")
            (facts,) = master.server.slaves
            assert facts.next_offset == facts.transferred_bytes == master.end
            assert facts.address.startswith("127.0.0.1:")
            own = slave.client.facts
            assert own.is_connected and own.max_offset == own.master_end == master.end
            assert own.last_read_ms and own.last_write_ms and not own.failure and not own.is_alarm

    run(scenario)


class HeldSyncs:
    """Syncs of one node's log wait until the test lets them go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
        self.may_sync = threading.Event()
        usual, held = CommitLog.sync, node.store._commit_log

        def sync(log: CommitLog) -> int:
            if log is held:
                assert self.may_sync.wait(60)
            return usual(log)

        monkeypatch.setattr(CommitLog, "sync", sync)


def test_slave_in_sync_flush_acknowledges_what_is_durable_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", rules=ANY_SLAVE, flush_disk_type="ASYNC_FLUSH") as master,
            Node(tmp_path / "b", is_slave=True, flush_disk_type="SYNC_FLUSH") as slave,
        ):
            slave.follow(master)
            await until(lambda: bool(master.server.slaves), "the slave is connected")
            syncs = HeldSyncs(monkeypatch, slave)
            put = asyncio.ensure_future(master.put(b"x"))
            await until(lambda: 0 < slave.end == master.end, "the slave has it")
            await asyncio.sleep(0.05)
            assert not put.done() and master.server.slaves[0].acknowledged == 0
            syncs.may_sync.set()
            assert (await put).status is PutMessageStatus.PUT_OK
            assert slave.driver.durable == master.end

    run(scenario)


def test_master_in_sync_flush_sends_what_is_durable_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            slave.follow(master)
            await master.put(b"first")
            await slave.has(master.end)
            before = slave.end
            syncs = HeldSyncs(monkeypatch, master)
            master.append(1)
            await asyncio.sleep(0.05)
            assert slave.end == before < master.end
            syncs.may_sync.set()
            await same_stores(master, slave)

    run(scenario)


def test_slave_whose_disk_refuses_tries_again_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            usual = slave.driver.append_replica

            def refuse(offset: int, data: bytes) -> int:
                raise StoreIOError("append", str(tmp_path), OSError(28, "No space left on device"))

            monkeypatch.setattr(slave.driver, "append_replica", refuse)
            master.append(20)
            slave.client.pause_max = 0.01
            slave.follow(master)
            await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
            assert "No space left" in slave.client.facts.failure
            monkeypatch.setattr(slave.driver, "append_replica", usual)
            await same_stores(master, slave)
            await until(lambda: not slave.client.facts.is_alarm, "the alarm is over")

    run(scenario)


@pytest.mark.usefixtures("appender")
def test_epochs_and_confirm_offset_come_with_the_log_under_a_controller(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = {"a": EpochTable([(1, 0)]), "b": EpochTable()}
        confirmed = [0]

        def add(epoch: int, start: int) -> None:
            tables["b"] = tables["b"].append(epoch, start)

        master = Node(tmp_path / "a", epochs=lambda: tables["a"], confirm_offset=lambda: confirmed[0])
        async with master, Node(tmp_path / "b", is_slave=True, epochs=lambda: tables["b"]) as slave:
            slave.client.log.on_epoch = add
            slave.driver.confirm(0)
            master.append(300)
            second = master.end
            slave.follow(master)
            await until(lambda: slave.end == second, "the first epoch is there")
            tables["a"] = tables["a"].append(2, second)
            master.server.drop_connections("a new epoch")
            master.append(100)
            await until(lambda: slave.end == master.end, "the second epoch is there")
            assert tables["b"] == tables["a"]
            assert slave.store.dispatched_offset == 0  # nothing is confirmed
            assert (await until_acknowledged(master)).broker_id == 1
            confirmed[0] = master.end
            await slave.has(master.end)
            assert slave.log_bytes() == master.log_bytes()

    run(scenario)


async def until_acknowledged(master: Node) -> HAConnectionFacts:
    await until(lambda: bool(master.server.slaves), "the slave is connected")
    await until(lambda: master.server.slaves[0].acknowledged == master.end, "everything is acknowledged")
    return master.server.slaves[0]


def test_slave_with_another_history_is_told_where_to_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        own = EpochTable([(1, 0)])
        cuts: list[int] = []
        async with Node(tmp_path / "b", is_slave=True, epochs=lambda: own) as slave:
            async with Node(tmp_path / "a", epochs=lambda: own) as master:
                master.append(20)
                slave.follow(master)
                await until(lambda: 0 < slave.end == master.end, "the slave has everything")
                middle = slave.end
                master.append(5)
                await until(lambda: slave.end == master.end, "the slave has everything")
            elected = EpochTable([(1, 0), (2, middle)])
            async with Node(tmp_path / "c", is_slave=True, epochs=lambda: elected) as other:
                other.driver.append_replica(0, slave.log_bytes()[:middle])
                slave.client.log.on_cut = cuts.append
                slave.follow(other)
                await until(lambda: bool(cuts), "the slave is to cut its log")
                assert cuts[0] == middle

    run(scenario)
