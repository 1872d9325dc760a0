"""The whole name server, over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import UnavailableError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.protocol.bodies.register import RegisterBrokerBody
from flaremq.protocol.bodies.route import TopicRouteData
from flaremq.protocol.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import BINARY_HEADER, RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.namesrv.conversation import events


class Lab:
    """A running name server, its clock, and clients of it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.options = NamesrvOptions(listen_port=0, kv_config_path=str(folder / "kvConfig.json"))
        self.service = NamesrvService(self.options, self.clock)
        self.broker = RemotingClient()
        self.client = RemotingClient()

    async def ask(self, code: int, **ext: str) -> RemotingCommand:
        return await self.client.request(self.service.address, RemotingCommand.request(code, ext))

    async def register(self, topic: str = "T") -> RemotingCommand:
        table = {name: TopicConfig(topic_name=name) for name in (topic, "TBW102")}
        wrapper = TopicConfigSerializeWrapper(topic_config_table=table)
        ext = {"clusterName": "C", "brokerName": "b", "brokerId": "0", "brokerAddr": "h:1", "haServerAddr": "h:2"}
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).to_json()
        command = RemotingCommand.request(RequestCode.REGISTER_BROKER, ext, body)
        return await self.broker.request(self.service.address, command)

    async def route_code(self, topic: str = "T") -> int:
        return (await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)).code

    async def wait_for_route_code(self, code: int) -> None:
        async with asyncio.timeout(10):
            while await self.route_code() != code:
                await asyncio.sleep(0.01)


def run(folder: Path, scenario: Callable[[Lab], Awaitable[None]]) -> None:
    async def main() -> None:
        lab = Lab(folder)
        await lab.service.start()
        try:
            await scenario(lab)
        finally:
            await lab.broker.close()
            await lab.client.close()
            await lab.service.stop()

    asyncio.run(main())


def test_registered_topic_has_a_route_until_the_broker_is_gone(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        assert await lab.route_code() == ResponseCode.TOPIC_NOT_EXIST
        assert (await lab.register()).code == ResponseCode.SUCCESS
        reply = await lab.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert TopicRouteData.from_json(reply.body_bytes).broker_datas[0].broker_addrs == {0: "h:1"}
        await lab.broker.close()
        await lab.wait_for_route_code(ResponseCode.TOPIC_NOT_EXIST)

    run(tmp_path, scenario)


def test_silent_broker_expires_and_loses_its_connection(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.register()
        lab.clock.advance(120_000)
        assert lab.service.tick() == []
        assert await lab.route_code() == ResponseCode.SUCCESS
        lab.clock.advance(5_000)
        assert [broker.address for broker in lab.service.tick()] == ["h:1"]
        assert await lab.route_code() == ResponseCode.TOPIC_NOT_EXIST
        async with asyncio.timeout(10):
            while lab.broker.connected(lab.service.address) is not None:
                await asyncio.sleep(0.01)

    run(tmp_path, scenario)


def test_silent_broker_expires_without_anybody_calling(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.register()
        lab.clock.advance(130_000)
        await lab.wait_for_route_code(ResponseCode.TOPIC_NOT_EXIST)

    run(tmp_path, scenario)


def test_wall_clock_that_jumps_expires_nobody(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.register()
        lab.clock.jump(10_000_000)
        lab.clock.advance(6_000)
        assert lab.service.tick() == []
        assert await lab.route_code() == ResponseCode.SUCCESS

    run(tmp_path, scenario)


def test_kv_config_survives_a_restart(tmp_path: Path) -> None:
    entry = {"namespace": "ns", "key": "k"}

    async def put(lab: Lab) -> None:
        assert (await lab.ask(RequestCode.PUT_KV_CONFIG, value="v", **entry)).code == ResponseCode.SUCCESS

    async def get(lab: Lab) -> None:
        assert (await lab.ask(RequestCode.GET_KV_CONFIG, **entry)).optional_field("value") == "v"

    run(tmp_path, put)
    run(tmp_path, get)


def test_unknown_request_is_answered_with_3(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        reply = await lab.ask(9999)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert reply.remark == " request type 9999 not supported"

    run(tmp_path, scenario)


def test_answer_has_the_header_type_of_the_request(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.register()
        command = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        command.serialize_type = BINARY_HEADER
        reply = await lab.client.request(lab.service.address, command)
        assert (reply.code, reply.serialize_type) == (ResponseCode.SUCCESS, BINARY_HEADER)

    run(tmp_path, scenario)


def test_oneway_registration_of_a_4_9_broker_counts(tmp_path: Path) -> None:
    commands = [event.command for event in events("json-49") if event.command is not None and event.from_client]
    oneway = next(command for command in commands if command.code == RequestCode.REGISTER_BROKER and command.is_oneway)
    first = next(command for command in commands if command.code == RequestCode.REGISTER_BROKER)
    topics = RegisterBrokerBody.decode(oneway.body_bytes).topic_config_serialize_wrapper.topic_config_table
    before = RegisterBrokerBody.decode(first.body_bytes).topic_config_serialize_wrapper.topic_config_table
    new = next(name for name in topics if name not in before)

    async def scenario(lab: Lab) -> None:
        await lab.broker.request(lab.service.address, first)
        assert await lab.route_code(new) == ResponseCode.TOPIC_NOT_EXIST
        await lab.broker.oneway(lab.service.address, oneway)
        async with asyncio.timeout(10):
            while await lab.route_code(new) != ResponseCode.SUCCESS:
                await asyncio.sleep(0.01)

    run(tmp_path, scenario)


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        options = NamesrvOptions(listen_port=lab.service.port, kv_config_path=str(tmp_path / "other.json"))
        second = NamesrvService(options)
        with pytest.raises(UnavailableError, match=str(lab.service.port)):
            await second.start()
        await second.stop()

    run(tmp_path, scenario)
