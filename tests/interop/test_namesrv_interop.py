"""Real brokers at our name server, and our broker's registration at real name servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.registration.name_servers import Registration
from flaremq.clock import SystemClock
from flaremq.errors import UnavailableError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.protocol.bodies.replication import HARuntimeInfo
from flaremq.protocol.bodies.route import ClusterInfo, TopicRouteData
from flaremq.protocol.bodies.topic import KVTable, TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem
from tests.interop import jvm
from tests.interop.wire.programs import why_no_java
from tests.interop.wire.server_process import ServerProcess
from tests.interop.wire.servers import SMALL_OPTIONS, RocketMQ
from tests.support.ports import free_ports

pytestmark = pytest.mark.interop

READY_SECONDS = 120.0  # JVMs on a busy machine


@pytest.fixture(params=jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS"))
def release(request: pytest.FixtureRequest) -> str:
    """Each release whose servers can be run."""
    version: str = request.param
    reason = why_no_java(version)
    if reason is not None:
        if os.environ.get("FLAREMQ_INTEROP_REQUIRED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return version


class Wire:
    """Requests to servers of either kind."""

    def __init__(self) -> None:
        self.client = RemotingClient()

    async def ask(self, address: str, code: int, body: bytes = b"", /, **ext: str) -> RemotingCommand:
        return await self.client.request(address, RemotingCommand.request(code, ext, body), timeout=10)

    async def find_route(self, address: str, topic: str) -> TopicRouteData | None:
        """The route; None while there is none, or nobody to ask."""
        try:
            reply = await self.ask(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        except UnavailableError:
            return None
        assert reply.code in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST), reply
        return TopicRouteData.from_json(reply.body_bytes) if reply.code == ResponseCode.SUCCESS else None

    async def wait_for_route(
        self, address: str, topic: str, server: ServerProcess, wanted: Callable[[TopicRouteData], bool] | None = None
    ) -> TopicRouteData:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                route = await self.find_route(address, topic)
                if route is not None and (wanted is None or wanted(route)):
                    return route
                assert server.is_running, server.log_tail()
                await asyncio.sleep(0.05)

    async def wait_for_no_route(self, address: str, topic: str, *, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while await self.find_route(address, topic) is not None:
                await asyncio.sleep(0.02)

    async def create_topic(self, broker: str, topic: str) -> None:
        ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6"}
        ext |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        reply = await self.ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, **ext)
        assert reply.code == ResponseCode.SUCCESS, reply


@asynccontextmanager
async def our_name_server(folder: Path) -> AsyncIterator[tuple[NamesrvService, Wire]]:
    wire = Wire()
    service = NamesrvService(NamesrvOptions(listen_port=0, kv_config_path=str(folder / "kv.json")))
    await service.start()
    try:
        yield service, wire
    finally:
        await wire.client.close()
        await service.stop()


def java_broker(release: str, folder: Path, name_server: str, **options: str) -> tuple[ServerProcess, str]:
    folder.mkdir()
    address = f"127.0.0.1:{free_ports()}"
    size = {"mapedFileSizeCommitLog" if release.startswith("4") else "mappedFileSizeCommitLog": str(16 << 20)}
    return RocketMQ(release).broker(folder, address, name_server, {**SMALL_OPTIONS, **size, **options}), address


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(scenario)


@pytest.mark.parametrize("packed", ["false", "true"])
def test_real_broker_registers_at_ours_and_says_goodbye(release: str, packed: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with our_name_server(tmp_path) as (namesrv, wire):
            server, address = java_broker(release, tmp_path / "broker", namesrv.address, compressedRegister=packed)
            try:
                route = await wire.wait_for_route(namesrv.address, "TBW102", server)
                assert route.broker_datas[0].broker_addrs == {0: address}
                assert route.queue_datas[0].perm == 7
                await wire.create_topic(address, "Made")
                route = await wire.wait_for_route(namesrv.address, "Made", server)
                assert (route.queue_datas[0].read_queue_nums, route.queue_datas[0].perm) == (3, 6)
                assert "SELF_TEST_TOPIC" in namesrv.routes.topics()  # a single new topic pushes out no other
                info = ClusterInfo.from_json(
                    (await wire.ask(namesrv.address, RequestCode.GET_BROKER_CLUSTER_INFO)).body_bytes
                )
                assert info.cluster_addr_table == {"DefaultCluster": ("broker-a",)}
                await asyncio.to_thread(server.stop)
                assert await wire.find_route(namesrv.address, "Made") is None
            finally:
                server.kill()

    run(scenario())


def test_killed_broker_is_gone_at_once(release: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with our_name_server(tmp_path) as (namesrv, wire):
            server, _ = java_broker(release, tmp_path / "broker", namesrv.address)
            try:
                await wire.wait_for_route(namesrv.address, "TBW102", server)
            finally:
                server.kill()
            await wire.wait_for_no_route(namesrv.address, "TBW102", seconds=10)

    run(scenario())


async def follows(release: str, wire: Wire, master: str, slave: str) -> bool:
    """Whether the slave has got in touch with the master it was told of."""
    if release.startswith("4"):
        return b'"Copied"' in (await wire.ask(slave, RequestCode.GET_ALL_TOPIC_CONFIG)).body_bytes
    # A 5.x slave asks for topics only once a minute, but its master says who replicates.
    status = await wire.ask(master, RequestCode.GET_BROKER_HA_STATUS)
    return len(HARuntimeInfo.from_json(status.body_bytes).ha_connection_info) == 1


def test_real_slave_finds_its_master_through_ours(release: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with our_name_server(tmp_path) as (namesrv, wire):
            master, master_address = java_broker(release, tmp_path / "master", namesrv.address)
            slave = None
            try:
                await wire.wait_for_route(namesrv.address, "TBW102", master)
                await wire.create_topic(master_address, "Copied")
                slave, slave_address = java_broker(
                    release, tmp_path / "slave", namesrv.address, brokerId="1", brokerRole="SLAVE"
                )
                both = {0: master_address, 1: slave_address}
                await wire.wait_for_route(
                    namesrv.address, "TBW102", slave, lambda route: route.broker_datas[0].broker_addrs == both
                )
                async with asyncio.timeout(READY_SECONDS):
                    while not await follows(release, wire, master_address, slave_address):
                        assert slave.is_running, slave.log_tail()
                        await asyncio.sleep(0.1)
            finally:
                master.kill()
                if slave is not None:
                    slave.kill()

    run(scenario())


@pytest.mark.parametrize("packed", ["false", "true"])
def test_our_registration_is_understood_by_the_real_name_server(release: str, packed: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        address = f"127.0.0.1:{free_ports()}"
        server = RocketMQ(release).name_server(tmp_path, address)
        options = BrokerOptions(namesrv_addr=address, compressed_register=packed == "true")
        clock = SystemClock()
        topics = TopicTable(options, ConfigFile(LocalFileSystem(), str(tmp_path / "topics.json")), clock)
        topics.load()
        registration = Registration(options, topics, clock)
        wire = Wire()
        try:
            await registration.start("127.0.0.1:10911", "127.0.0.1:10912")
            async with asyncio.timeout(READY_SECONDS):
                while not registration.registered_at:  # the JVM is still starting
                    assert server.is_running, server.log_tail()
                    registration.run_due(clock.now_ms())
                    await asyncio.sleep(0.1)
            for name, config in topics.all().items():
                route = await wire.find_route(address, name)
                assert route is not None, name
                (entry,) = route.queue_datas
                assert (entry.perm, entry.read_queue_nums) == (config.perm, config.read_queue_nums), name
                assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}
            topics.update(TopicConfig(topic_name="new", read_queue_nums=2, write_queue_nums=2))
            await topics.save_changes()
            assert await wire.find_route(address, "new") is not None
            ordered = {"namespace": "ORDER_TOPIC_CONFIG", "key": "new", "value": "broker-a:2"}
            assert (await wire.ask(address, RequestCode.PUT_KV_CONFIG, **ordered)).code == ResponseCode.SUCCESS
            listed = await wire.ask(address, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ORDER_TOPIC_CONFIG")
            assert KVTable.from_json(listed.body_bytes).table == {"new": "broker-a:2"}
            topics.update(TopicConfig(topic_name="another"))
            await topics.save_changes()
            found = topics.find("new")
            assert found is not None and found.order
            await registration.stop()
            await wire.wait_for_no_route(address, "new", seconds=10)
        finally:
            await registration.stop()
            await wire.client.close()
            server.kill()

    run(scenario())
