"""BrokerService as a whole: start, stop, restart; what is taken, what is missing, and who is told."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.java_json import parse_java_json
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.queue import SetMessageRequestModeRequestBody
from flaremq.protocol.bodies.route import TopicRouteData
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.storage.message_store import MessageStore
from tests.support.broker_lab import UNIQUE, BrokerLab, bodies, send_header, until
from tests.support.ports import free_ports

SMALL_STORE: dict[str, Any] = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "diskMaxUsedSpaceRatio": "95",
    "grpcServerPort": "-1",
}


def service(folder: Path, **options: object) -> BrokerService:
    settings = {"listenPort": "0", **SMALL_STORE} | {name: str(value) for name, value in options.items()}
    return BrokerService(folder, *load_options(None, settings), clock=ManualClock())


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(), 60)

    asyncio.run(main())


async def route(name_server: str, topic: str) -> TopicRouteData | None:
    client = RemotingClient()
    try:
        request = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        reply = await client.request(name_server, request)
        return TopicRouteData.from_json(reply.body_bytes) if reply.code == 0 else None
    finally:
        await client.close()


# Restart


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_restarted_broker_knows_everything_it_knew(tmp_path: Path, flush: str) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        clock = ManualClock()
        async with BrokerLab(path=path, clock=clock, flushDiskType=flush) as lab:
            lab.topic("orders", queues=3)
            state = lab.broker.state
            state.groups.update(SubscriptionGroupConfig(group_name="readers", retry_max_times=7))
            for number in range(10):
                await lab.send("orders", b"%d" % number, properties=f"KEYS\x01k{number}\x02{UNIQUE}")
            await lab.send("orders", b"later", properties=f"DELAY\x013\x02{UNIQUE}")
            await lab.send("orders", b"timed", properties=f"TIMER_DELAY_MS\x0120000\x02{UNIQUE}")
            ext = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 4}
            assert (await lab.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0
        for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset"):
            assert parse_java_json((tmp_path / "store" / "config" / f"{name}.json").read_bytes()) is not None
        assert not (tmp_path / "store" / "abort").exists(), "closed cleanly"
        async with BrokerLab(path=path, clock=clock, flushDiskType=flush) as lab:
            state = lab.broker.state
            config = state.topics.find("orders")
            assert config is not None and config.write_queue_nums == 3
            group = state.groups.get("readers")
            assert group is not None and group.retry_max_times == 7
            assert bodies(await lab.pull("orders")) == [b"%d" % number for number in range(10)]
            ext = {"consumerGroup": "readers", "topic": "orders", "queueId": 0}
            assert (await lab.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)).field("offset") == "4"
            await lab.ephemeral.advanced(9_000)
            assert bodies(await lab.pull("orders", 10)) == []
            await lab.ephemeral.advanced(1_000)
            assert bodies(await lab.pull("orders", 10)) == [b"later"]
            await lab.ephemeral.advanced(10_000)
            assert bodies(await lab.pull("orders", 11)) == [b"timed"]
            assert (await lab.send("orders", b"next")).field("queueOffset") == "12"

    run(scenario)


def test_offsets_beyond_the_data_are_cut_at_start_and_unquoted_keys_are_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        async with BrokerLab(path=path) as lab:
            lab.topic("orders")
            for _ in range(3):
                await lab.send("orders")
        file = tmp_path / "store" / "config" / "consumerOffset.json"
        file.write_text('{"offsetTable":{"orders@readers":{0:99,1:5},"orders@others":{0:2}}}')  # as Java writes it
        async with BrokerLab(path=path) as lab:
            find = lab.broker.state.offsets.find
            assert (find("readers", "orders", 0), find("readers", "orders", 1)) == (3, 0)
            assert find("others", "orders", 0) == 2
            assert bodies(await lab.pull("orders", 3)) == []

    run(scenario)


def test_stop_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        acknowledged: dict[tuple[int, int], bytes] = {}
        for cycle in range(3):
            async with BrokerLab(path=path, **SMALL_STORE) as lab:
                lab.topic("orders")

                async def load(queue_id: int, lab: BrokerLab = lab, cycle: int = cycle) -> None:
                    client = RemotingClient()
                    for number in range(100_000):
                        body = b"%d.%d.%d" % (cycle, queue_id, number)
                        try:
                            reply = await lab.send("orders", body, queue_id=queue_id, client=client)
                        except UnavailableError:
                            break
                        if reply.code != 0:
                            assert reply.code in (2, 14), reply.remark
                            break
                        acknowledged[queue_id, int(reply.field("queueOffset"))] = body
                    await client.close()

                before = len(acknowledged)
                loads = [asyncio.ensure_future(load(queue_id)) for queue_id in range(4)]
                await until(lambda before=before: len(acknowledged) > before + 100)  # type: ignore[misc]
                await lab.broker.stop()
                await asyncio.gather(*loads)
        store = await asyncio.to_thread(MessageStore.open, path, load_options(None, SMALL_STORE)[1])
        for (queue_id, offset), body in acknowledged.items():
            assert [m.body for m in store.get("orders", queue_id, offset, 1).messages] == [body]
        assert store.recovery.closed_cleanly
        await asyncio.to_thread(store.close)

    run(scenario)


def test_stop_answers_the_sends_that_wait_for_the_disk_and_takes_no_more() -> None:
    async def scenario() -> None:
        async with BrokerLab() as lab:
            lab.topic("orders")
            broker = lab.broker
            with lab.slow_disk() as released:
                sending = [asyncio.ensure_future(lab.send("orders", b"%d" % number)) for number in range(20)]
                waiting = asyncio.ensure_future(lab.pull("orders", 0, sysFlag=6, suspendTimeoutMillis=30_000))
                await until(lambda: broker.store_loop.durability.unacknowledged == 20)
                stopping = asyncio.ensure_future(broker.stop())
                assert (await waiting).code == 19, "answered before anything is closed"
                with pytest.raises(UnavailableError):
                    await lab.send("orders", b"late", client=RemotingClient())
                assert not any(task.done() for task in (*sending, stopping))
                released.set()
                assert [reply.code for reply in await asyncio.gather(*sending)] == [0] * 20
                await stopping

    run(scenario)


def test_disk_that_hangs_does_not_keep_a_broker_from_stopping() -> None:
    async def scenario() -> None:
        async with BrokerLab(syncFlushTimeout="50") as lab:
            lab.topic("orders")
            with lab.slow_disk() as released:
                sending = asyncio.ensure_future(lab.send("orders"))
                await until(lambda: lab.broker.store_loop.durability.unacknowledged == 1)
                stopping = asyncio.ensure_future(lab.broker.stop())
                assert (await sending).code == 10, "told that it took too long"
                released.set()
                await stopping

    run(scenario)


def test_step_of_the_stop_that_fails_keeps_nothing_else_from_being_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        broker = service(tmp_path / "store")
        await broker.start()
        state = broker.state
        state.groups.update(SubscriptionGroupConfig(group_name="readers"))
        state.offsets.commit("readers", "orders", 0, 7)

        def fail(*_: object) -> None:
            raise OSError("no")

        monkeypatch.setattr(state.transactions, "persist", fail)
        monkeypatch.setattr(state.topics, "save_now", fail)
        with pytest.raises(OSError, match="no"):
            await broker.stop()
        assert named_threads() == []
        config = tmp_path / "store" / "config"
        assert b"readers" in (config / "subscriptionGroup.json").read_bytes()
        assert b"orders@readers" in (config / "consumerOffset.json").read_bytes()
        assert not (tmp_path / "store" / "abort").exists(), "the store was closed"

    run(scenario)


# Groups that come into being by use


def test_group_that_pulls_for_the_first_time_is_saved_without_being_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerLab(path=str(tmp_path / "store")) as lab:
            lab.topic("orders")
            await lab.pull("orders", group="newcomers")
            await until(lambda: lab.broker.state.groups.is_saved)
            assert b"newcomers" in (tmp_path / "store" / "config" / "subscriptionGroup.json").read_bytes()

    run(scenario)


def test_deleted_group_takes_its_request_modes_and_statistics_along() -> None:
    async def scenario() -> None:
        async with BrokerLab() as lab:
            state = lab.broker.state
            state.groups.update(SubscriptionGroupConfig(group_name="readers"))
            mode = SetMessageRequestModeRequestBody(topic="orders", consumer_group="readers", mode="POP")
            state.request_modes.update(mode)
            state.statistics.note_get("readers", "orders", 1, 10)
            reply = await lab.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "readers"})
            assert reply.code == 0
            assert state.request_modes.find("orders", "readers").mode == "PULL"
            assert state.statistics.find("GROUP_GET_NUMS", "orders@readers") is None

    run(scenario)


# Start that fails


def named_threads() -> list[str]:
    # The loop of blocking clients lives as long as the process: an earlier test may have started it.
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("flaremq") and name != "flaremq-client"]


def test_taken_port_fails_the_start_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            broker = service(tmp_path / "store", listenPort=port)
            with pytest.raises(UnavailableError, match=str(port)):
                await broker.start()
        assert named_threads() == []
        again = service(tmp_path / "store", listenPort=port)
        await again.start()
        await again.stop()

    run(scenario)


def test_store_in_use_fails_the_start_and_leaves_the_port_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = service(tmp_path / "store")
        await first.start()
        port = free_ports()
        second = service(tmp_path / "store", listenPort=port)
        with pytest.raises(UnavailableError, match="store"):
            await second.start()
        with socket.create_server(("127.0.0.1", port)):
            pass
        client = RemotingClient()
        reply = await client.request(first.address, RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        assert reply.code == 0, "the first goes on"
        await client.close()
        await first.stop()

    run(scenario)


def test_file_in_the_place_of_the_store_fails_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "store").write_bytes(b"")
        with pytest.raises(InvalidArgumentError, match="not a directory"):
            await service(tmp_path / "store").start()
        assert named_threads() == []

    run(scenario)


def test_bind_to_the_outside_is_refused_unless_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="insecureBindEnable"):
        service(tmp_path, bindAddress="0.0.0.0")
    service(tmp_path, bindAddress="0.0.0.0", insecureBindEnable="true")


def test_stopping_twice_and_stopping_what_never_started_is_harmless(tmp_path: Path) -> None:
    async def scenario() -> None:
        await service(tmp_path / "never").stop()
        broker = service(tmp_path / "store")
        await broker.start()
        await broker.stop()
        await broker.stop()
        assert named_threads() == []

    run(scenario)


# Ports


def test_vip_port_serves_everything_but_what_consumers_wait_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = service(tmp_path / "store", listenPort=free_ports())
        await broker.start()
        client = RemotingClient()
        vip = f"127.0.0.1:{broker.port - 2}"
        for code, expected in (
            (RequestCode.GET_BROKER_RUNTIME_INFO, 0),
            (RequestCode.PULL_MESSAGE, 3),
            (RequestCode.LITE_PULL_MESSAGE, 3),
            (RequestCode.POP_MESSAGE, 3),
        ):
            assert (await client.request(vip, RemotingCommand.request(code))).code == expected
        await client.close()
        await broker.stop()

    run(scenario)


def test_taken_vip_port_costs_only_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        port = free_ports()
        with socket.create_server(("127.0.0.1", port - 2)):
            broker = service(tmp_path / "store", listenPort=port)
            await broker.start()
            client = RemotingClient()
            request = RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO)
            assert (await client.request(broker.address, request)).code == 0
            await client.close()
            await broker.stop()

    run(scenario)


# Name servers


async def namesrv(port: int = 0) -> NamesrvService:
    server = NamesrvService(NamesrvOptions.from_properties({"listenPort": str(port)}))
    await server.start()
    return server


def test_brokers_of_one_cluster_are_all_in_the_route_at_every_name_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        servers = [await namesrv(), await namesrv()]
        addresses = ";".join(server.address for server in servers)
        brokers = [service(tmp_path / name, brokerName=name, namesrvAddr=addresses) for name in ("one", "two", "three")]
        for broker in brokers:
            await broker.start()
        for server in servers:
            found = await route(server.address, "DefaultCluster")
            assert found is not None
            assert sorted(data.broker_name for data in found.broker_datas) == ["one", "three", "two"]
            assert sorted(data.broker_addrs[0] for data in found.broker_datas) == sorted(b.address for b in brokers)
        await brokers[1].stop()
        for server in servers:
            found = await route(server.address, "DefaultCluster")
            assert found is not None, "told before it is gone"
            assert sorted(data.broker_name for data in found.broker_datas) == ["one", "three"]
        for broker in (brokers[0], brokers[2]):
            await broker.stop()
        for server in servers:
            await server.stop()

    run(scenario)


def test_name_server_that_comes_later_is_told_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        broker = service(tmp_path / "store", namesrvAddr=f"127.0.0.1:{port}")
        await broker.start()
        server = await namesrv(port)
        assert await route(server.address, "DefaultCluster") is None
        assert isinstance(broker.clock, ManualClock)
        broker.clock.advance(30_000)
        await broker.run_due()
        assert await route(server.address, "DefaultCluster") is not None
        await broker.stop()
        await server.stop()

    run(scenario)


@pytest.mark.slow
def test_stop_does_not_wait_for_a_name_server_that_hangs(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            broker = service(tmp_path / "store", namesrvAddr=address, registerBrokerTimeoutMills=1000)
            await broker.start()
            await broker.stop()

    run(scenario)


# What an administrator changes


def test_flush_type_changed_by_an_administrator_is_in_force_and_shown() -> None:
    async def scenario() -> None:
        async with BrokerLab(flushDiskType="ASYNC_FLUSH") as lab:
            lab.topic("orders")
            assert (await lab.send("orders", b"async")).code == 0
            for kind in ("SYNC_FLUSH", "ASYNC_FLUSH", "SYNC_FLUSH"):
                reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, f"flushDiskType={kind}\n".encode())
                assert reply.code == 0, reply.remark
                assert lab.broker.store_loop.waits_for_sync == (kind == "SYNC_FLUSH")
                config = await lab.ask(RequestCode.GET_BROKER_CONFIG)
                assert f"flushDiskType={kind}\n".encode() in config.body_bytes
            # Options of the store that are changed afterwards still reach it.
            reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"fileReservedTime=7\n")
            assert reply.code == 0 and lab.broker.store.options.file_reserved_time == 7
            assert (await lab.send("orders", b"sync")).code == 0
            assert lab.broker.store_loop.driver.durable == lab.broker.store_loop.driver.appended

    run(scenario)


@pytest.mark.parametrize("seconds", [0, 1, 60])
def test_broker_without_anything_to_do_keeps_running(tmp_path: Path, seconds: int) -> None:
    async def scenario() -> None:
        broker = service(tmp_path / "store")
        await broker.start()
        assert isinstance(broker.clock, ManualClock)
        broker.clock.advance(seconds * 1000)
        await broker.run_due()
        assert all(task.running is None for task in broker.scheduler._tasks)
        await broker.stop()

    run(scenario)


def test_periodic_work_does_not_wait_for_a_name_server_that_does_not_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        reached = asyncio.Event()

        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.set()
            await reader.read()
            writer.close()

        hung = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        address = f"127.0.0.1:{hung.sockets[0].getsockname()[1]}"
        broker = service(tmp_path, namesrvAddr=address, registerBrokerTimeoutMills=600_000)
        starting = asyncio.ensure_future(broker.start())
        await reached.wait()
        client = RemotingClient()
        ext = send_header("TBW102", properties=f"DELAY\x011\x02{UNIQUE}").encode_letters()
        request = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, ext, b"later")
        reply = await client.request(broker.address, request, 20.0)
        assert reply.code == 0, reply.remark
        assert isinstance(broker.clock, ManualClock)
        broker.clock.advance(1000)
        await until(lambda: broker.store.max_offset("TBW102", 0) == 1, "the delayed message")
        assert not starting.done()
        await client.close()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        hung.close()

    run(scenario)
