"""A broker makes itself known at name servers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.registration.name_servers import Registration
from flaremq.broker.role import Role
from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.protocol.bodies.register import RegisterBrokerBody, body_crc32
from flaremq.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.server import RemotingServer
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem

ADDRESS, HA_ADDRESS = "127.0.0.1:10911", "127.0.0.1:10912"


class Recorder:
    """A name server that notes what it is told and answers as it is told to."""

    def __init__(self) -> None:
        self.requests: list[RemotingCommand] = []
        self.answer: Callable[[RemotingCommand], RemotingCommand] = lambda _: RemotingCommand.response()
        self.gate = asyncio.Event()
        self.gate.set()
        table = HandlerTable()
        for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.QUERY_DATA_VERSION):
            table.register(code, self._note)
        self._table = table
        self._server = RemotingServer(table)
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = RemotingServer(self._table)
        await self._server.start("127.0.0.1", port)
        self.port = self._server.port

    async def stop(self) -> None:
        await self._server.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def _note(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.requests.append(request)
        await self.gate.wait()
        return self.answer(request)

    @property
    def codes(self) -> list[int]:
        return [request.code for request in self.requests]

    def topics(self) -> dict[str, TopicConfig]:
        """Those of the last registration."""
        return self._last.topic_config_table

    def version(self) -> DataVersion:
        return self._last.data_version

    @property
    def _last(self) -> TopicConfigSerializeWrapper:
        return RegisterBrokerBody.decode(self.requests[-1].body_bytes).topic_config_serialize_wrapper


class Lab:
    """A broker's topics and registration, and two name servers."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.folder = folder
        self.first, self.second = Recorder(), Recorder()
        self.registration: Registration | None = None

    async def broker(self, addresses: str, **options: str) -> Registration:
        properties = {"namesrvAddr": addresses, "brokerName": "broker-a", **options}
        self.options = BrokerOptions.from_properties(properties)
        self.topics = TopicTable(
            self.options, ConfigFile(LocalFileSystem(), str(self.folder / "topics.json")), self.clock
        )
        self.topics.load()
        is_master = self.options.broker_id == 0
        self.role = Role(is_master=is_master, broker_id=self.options.broker_id)
        self.registration = Registration(self.options, self.topics, self.clock, role=self.role)
        await self.registration.start(ADDRESS, HA_ADDRESS)
        return self.registration

    def run_due(self) -> None:
        assert self.registration is not None
        self.registration.run_due()


def run(folder: Path, scenario: Callable[[Lab], Awaitable[None]]) -> None:
    async def main() -> None:
        lab = Lab(folder)
        await lab.first.start()
        await lab.second.start()
        try:
            await scenario(lab)
        finally:
            if lab.registration is not None:
                await lab.registration.stop()
            await lab.first.stop()
            await lab.second.stop()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_every_name_server_is_told_everything_at_the_start(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(f"{lab.first.address};{lab.second.address}", brokerId="0", brokerClusterName="C")
        for server in (lab.first, lab.second):
            (request,) = server.requests
            assert request.code == RequestCode.REGISTER_BROKER
            assert dict(request.ext or {}) == {
                "brokerName": "broker-a",
                "brokerAddr": ADDRESS,
                "clusterName": "C",
                "haServerAddr": HA_ADDRESS,
                "brokerId": "0",
                "enableActingMaster": "false",
                "compressed": "false",
                "bodyCrc32": str(body_crc32(request.body_bytes)),
            }
            assert server.topics() == lab.topics.all()
            assert server.version() == lab.topics.data_version

    run(tmp_path, scenario)


def test_registration_is_repeated_every_30_seconds(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address)
        lab.clock.advance(29_999)
        lab.run_due()
        lab.clock.advance(1)
        lab.run_due()
        await until(lambda: len(lab.first.requests) == 2)
        lab.run_due()
        lab.clock.jump(-3_600_000)  # somebody sets the wall clock back
        lab.clock.advance(30_000)
        lab.run_due()
        await until(lambda: len(lab.first.requests) == 3)

    run(tmp_path, scenario)


def test_new_topic_is_announced_before_it_is_settled(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(f"{lab.first.address};{lab.second.address}")
        lab.topics.update(TopicConfig(topic_name="new"))
        await lab.topics.save_changes()
        for server in (lab.first, lab.second):
            assert len(server.requests) == 2
            assert server.topics() == {"new": TopicConfig(topic_name="new")}
            assert server.version() == lab.topics.data_version

    run(tmp_path, scenario)


def test_only_what_changed_is_announced_and_everything_follows_in_time(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address)
        for number in range(3):
            lab.clock.advance(9_000)
            lab.topics.update(TopicConfig(topic_name=f"T{number}"))
            await lab.topics.save_changes()
            assert set(lab.first.topics()) == {f"T{number}"}
        lab.clock.advance(3_000)  # 30 s since the start: single topics have put nothing off
        lab.run_due()
        await until(lambda: len(lab.first.requests) == 5)
        assert lab.first.topics() == lab.topics.all()

    run(tmp_path, scenario)


def test_everything_is_announced_by_option(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address, enableSingleTopicRegister="false")
        lab.topics.update(TopicConfig(topic_name="new"))
        await lab.topics.save_changes()
        assert lab.first.topics() == lab.topics.all()

    run(tmp_path, scenario)


def test_name_server_that_refuses_a_single_topic_is_told_everything(tmp_path: Path) -> None:
    def forgetful(request: RemotingCommand) -> RemotingCommand:
        body = RegisterBrokerBody.decode(request.body_bytes).topic_config_serialize_wrapper
        known = len(body.topic_config_table) > 1
        return RemotingCommand.response(ResponseCode.SUCCESS if known else ResponseCode.SYSTEM_ERROR)

    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address)
        lab.first.answer = forgetful
        lab.topics.update(TopicConfig(topic_name="new"))
        await lab.topics.save_changes()
        assert len(lab.first.requests) == 3
        assert lab.first.topics() == lab.topics.all()

    run(tmp_path, scenario)


def test_change_of_the_permission_concerns_every_topic(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        registration = await lab.broker(lab.first.address)
        lab.options.change({"brokerPermission": "4"})
        announced = registration.announce()
        assert announced is not None
        await announced
        assert lab.first.topics().keys() == lab.topics.all().keys()
        assert all(config.perm & 2 == 0 for config in lab.first.topics().values())

    run(tmp_path, scenario)


def test_deleted_topic_is_left_out_of_the_next_full_registration(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address)
        lab.topics.update(TopicConfig(topic_name="new"))
        await lab.topics.save_changes()
        lab.topics.delete("new")
        await lab.topics.save_changes()
        assert len(lab.first.requests) == 2
        lab.clock.advance(30_000)
        lab.run_due()
        await until(lambda: len(lab.first.requests) == 3)
        assert "new" not in lab.first.topics()
        assert lab.first.version() == lab.topics.data_version

    run(tmp_path, scenario)


def test_changes_during_a_registration_share_the_next_one(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address)
        lab.first.gate.clear()
        lab.topics.update(TopicConfig(topic_name="T0"))
        await until(lambda: len(lab.first.requests) == 2)
        for number in range(1, 20):
            lab.topics.update(TopicConfig(topic_name=f"T{number}"))
        lab.first.gate.set()
        await lab.topics.save_changes()
        assert len(lab.first.requests) == 3
        assert set(lab.first.topics()) == {f"T{number}" for number in range(1, 20)}

    run(tmp_path, scenario)


def test_change_during_the_very_first_registration_is_not_lost(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        lab.first.gate.clear()
        starting = asyncio.create_task(lab.broker(lab.first.address))
        await until(lambda: len(lab.first.requests) == 1)
        lab.topics.update(TopicConfig(topic_name="new"))
        lab.first.gate.set()
        await starting
        await until(lambda: len(lab.first.requests) == 2)
        assert "new" in lab.first.topics()

    run(tmp_path, scenario)


def test_unreachable_name_server_holds_up_nobody_and_is_told_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.first.stop()
        registration = await lab.broker(f"{lab.first.address};{lab.second.address}")
        assert registration.registered_at == [lab.second.address]
        lab.topics.update(TopicConfig(topic_name="new"))
        await lab.topics.save_changes()
        assert "new" in lab.second.topics()
        await lab.first.start(lab.first.port)
        lab.clock.advance(3_000)
        lab.run_due()
        await until(lambda: len(registration.registered_at) == 2)
        assert lab.first.codes == [RequestCode.REGISTER_BROKER]
        assert "new" in lab.first.topics()

    run(tmp_path, scenario)


def test_name_server_that_restarted_is_told_at_once(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        registration = await lab.broker(lab.first.address)
        await lab.first.stop()
        await until(lambda: registration.registered_at == [])
        await lab.first.start(lab.first.port)
        lab.clock.advance(3_000)
        lab.run_due()
        await until(lambda: registration.registered_at == [lab.first.address])
        assert lab.first.codes == [RequestCode.REGISTER_BROKER, RequestCode.REGISTER_BROKER]

    run(tmp_path, scenario)


def test_refused_registration_is_tried_again(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        lab.first.answer = lambda _: RemotingCommand.response(ResponseCode.SYSTEM_ERROR, "not now")
        registration = await lab.broker(lab.first.address)
        assert registration.registered_at == []
        lab.first.answer = lambda _: RemotingCommand.response()
        lab.clock.advance(3_000)
        lab.run_due()
        await until(lambda: registration.registered_at == [lab.first.address])

    run(tmp_path, scenario)


def test_goodbye_is_said_at_the_end(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        registration = await lab.broker(f"{lab.first.address};{lab.second.address}")
        await lab.second.stop()
        await registration.stop()
        assert lab.first.codes == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]
        goodbye = dict(lab.first.requests[-1].ext or {})
        assert (goodbye["brokerAddr"], goodbye["brokerName"]) == (ADDRESS, "broker-a")
        lab.topics.update(TopicConfig(topic_name="late"))
        await lab.topics.save_changes()
        lab.run_due()
        assert len(lab.first.requests) == 2

    run(tmp_path, scenario)


def test_without_name_servers_nothing_happens(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        registration = await lab.broker("")
        lab.topics.update(TopicConfig(topic_name="new"))
        await lab.topics.save_changes()
        lab.run_due()
        assert registration.registered_at == []

    run(tmp_path, scenario)


def test_address_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(InvalidArgumentError, match="nowhere"):
            await lab.broker("nowhere")

    run(tmp_path, scenario)


def test_registration_tells_who_the_name_server_takes_for_the_master(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        told = {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
        lab.first.answer = lambda _: RemotingCommand.response(ext=told)
        registration = await lab.broker(lab.first.address)
        assert registration.master_address == "10.0.0.1:10911"
        assert registration.master_ha_address == "10.0.0.1:10912"

    run(tmp_path, scenario)


def test_slave_asks_every_few_seconds_until_it_knows_its_master(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        registration = await lab.broker(lab.first.address, brokerId="2")
        assert lab.first.requests[0].field("brokerId") == "2"
        changes: list[str | None] = []
        registration.on_master.append(lambda: changes.append(registration.master_address))
        told = {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
        lab.first.answer = lambda _: RemotingCommand.response(ext=told)
        lab.clock.advance(3_000)
        lab.run_due()
        await until(lambda: changes == ["10.0.0.1:10911"])
        lab.clock.advance(29_999)
        lab.run_due()
        assert len(lab.first.requests) == 2, "it knows, so it asks no more often than a master"
        lab.first.answer = lambda _: RemotingCommand.response()
        lab.clock.advance(2)
        lab.run_due()
        await until(lambda: changes == ["10.0.0.1:10911", None])
        assert registration.master_ha_address == "10.0.0.1:10912", "it may come back there"

    run(tmp_path, scenario)


def test_slave_whose_master_does_not_answer_asks_where_it_is(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        told = {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
        lab.first.answer = lambda _: RemotingCommand.response(ext=told)
        registration = await lab.broker(lab.first.address, brokerId="1")
        registration.look_for_master(True)
        for count in (2, 3):
            lab.clock.advance(3_000)
            lab.run_due()
            await until(lambda count=count: len(lab.first.requests) == count)  # type: ignore[misc]
        registration.look_for_master(False)
        lab.clock.advance(3_000)
        lab.run_due()
        await until(lambda: len(lab.first.requests) == 4)  # the last one was planned before
        lab.clock.advance(29_000)
        lab.run_due()
        assert len(lab.first.requests) == 4

    run(tmp_path, scenario)


def test_change_of_the_role_is_registered_at_once_with_its_epoch(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address, brokerId="3")
        lab.role.become_master(epoch=7)
        await until(lambda: len(lab.first.requests) == 2)
        assert lab.first.requests[-1].field("brokerId") == "0"
        assert lab.first.version().state_version == 7

    run(tmp_path, scenario)


def test_order_configuration_of_the_name_server_marks_topics(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address)
        lab.first.answer = lambda _: RemotingCommand.response(body=b'{"table":{"T":"broker-a:4"}}')
        lab.topics.update(TopicConfig(topic_name="T"))
        await lab.topics.save_changes()
        assert lab.topics.find("T") == TopicConfig(topic_name="T", order=True)
        lab.first.answer = lambda _: RemotingCommand.response(body=b"{")
        lab.topics.update(TopicConfig(topic_name="U"))
        await lab.topics.save_changes()  # garbage is ignored
        assert lab.topics.find("U") == TopicConfig(topic_name="U")

    run(tmp_path, scenario)


def test_broker_closed_for_sends_says_so_for_each_topic(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address, brokerPermission="4")
        perms = {name: config.perm for name, config in lab.first.topics().items()}
        assert perms["TBW102"] == 4 and perms["SELF_TEST_TOPIC"] == 4
        assert all(perm & 2 == 0 for perm in perms.values())

    run(tmp_path, scenario)


def test_packed_registration_says_that_it_is(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(lab.first.address, compressedRegister="true")
        (request,) = lab.first.requests
        assert request.field("compressed") == "true"
        assert request.body_bytes[0] == 0x78
        assert request.field("bodyCrc32") == str(body_crc32(request.body_bytes))
        assert lab.first.topics() == {name: replace(c, attributes={}) for name, c in lab.topics.all().items()}

    run(tmp_path, scenario)


def test_nothing_new_is_only_asked_about_by_option(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        lab.first.answer = lambda _: RemotingCommand.response(ext={"changed": "false"})
        await lab.broker(lab.first.address, forceRegister="false")
        lab.clock.advance(30_000)
        lab.run_due()
        await until(lambda: len(lab.first.requests) == 2)
        assert lab.first.codes == [RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION]
        assert lab.first.requests[1].body_bytes == lab.topics.data_version.to_json()
        lab.first.answer = lambda _: RemotingCommand.response(ext={"changed": "true"})
        lab.clock.advance(30_000)
        lab.run_due()
        await until(lambda: len(lab.first.requests) == 4)
        assert lab.first.codes[2:] == [RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER]

    run(tmp_path, scenario)


@pytest.mark.parametrize("packed", ["false", "true"])
def test_registered_topics_have_routes_at_our_own_name_server(tmp_path: Path, packed: str) -> None:
    async def scenario(lab: Lab) -> None:
        namesrv = NamesrvService(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")), lab.clock)
        await namesrv.start()
        client = RemotingClient()

        async def route_code(topic: str) -> int:
            request = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            return (await client.request(namesrv.address, request)).code

        try:
            registration = await lab.broker(namesrv.address, compressedRegister=packed)
            assert await route_code("TBW102") == ResponseCode.SUCCESS
            lab.topics.update(TopicConfig(topic_name="new"))
            await lab.topics.save_changes()
            assert await route_code("new") == ResponseCode.SUCCESS
            await registration.stop()
            assert await route_code("new") == ResponseCode.TOPIC_NOT_EXIST
        finally:
            await client.close()
            await namesrv.stop()

    run(tmp_path, scenario)
