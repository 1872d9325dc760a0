"""The whole controller, over sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.controller.groups import ReplicaGroup
from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from flaremq.controller.stores.file_store import FileStore
from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.options import parse_properties
from flaremq.protocol.bodies.controller import BrokerReplicasInfo, SyncStateSet
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.server import RemotingServer

CLUSTER = {"clusterName": "DefaultCluster", "brokerName": "broker-a"}


class Broker:
    """What a controller sees of a broker: a port that takes notices, and requests."""

    def __init__(self, controller: str, broker_id: int) -> None:
        self.controller = controller
        self.broker_id = broker_id
        self.client = RemotingClient()
        self.notices: asyncio.Queue[RemotingCommand] = asyncio.Queue()
        table = HandlerTable()
        table.register(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, self._noticed)
        self.server = RemotingServer(table)

    def _noticed(self, _: Connection, request: RemotingCommand) -> None:
        self.notices.put_nowait(request)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def ask(self, code: int, body: bytes = b"", **ext: object) -> RemotingCommand:
        fields = {**CLUSTER, **{key: str(value) for key, value in ext.items()}}
        return await self.client.request(self.controller, RemotingCommand.request(code, fields, body))

    async def join(self) -> None:
        await self.server.start("127.0.0.1", 0)
        assert (await self.ask(1013, appliedBrokerId=self.broker_id, registerCheckCode=self.address)).code == 0
        assert (await self.ask(1003, brokerId=self.broker_id, brokerAddress=self.address)).code == 0
        await self.heartbeat()

    async def heartbeat(self, offset: int = 0) -> None:
        reply = await self.ask(
            904, brokerId=self.broker_id, brokerAddr=self.address, epoch=1, maxOffset=offset, confirmOffset=0
        )
        assert reply.code == 0

    async def elect(self) -> RemotingCommand:
        return await self.ask(1002, brokerId=self.broker_id)

    async def alter(self, members: list[int], *, epoch: int, set_epoch: int) -> RemotingCommand:
        body = SyncStateSet(sync_state_set=frozenset(members), sync_state_set_epoch=set_epoch).to_json()
        return await self.ask(1001, body, masterBrokerId=self.broker_id, masterEpoch=epoch)

    async def die(self) -> None:
        await self.client.close()
        await self.server.stop()


class Lab:
    """A running controller, its clock, and brokers."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.options = ControllerOptions(listen_port=0, controller_store_path=str(folder), **options)  # type: ignore[arg-type]
        self.store = FileStore(str(folder))
        self.service = ControllerService(self.options, self.store, self.clock)
        self.brokers: list[Broker] = []

    async def broker(self, broker_id: int) -> Broker:
        broker = Broker(self.service.address, broker_id)
        self.brokers.append(broker)
        await broker.join()
        return broker

    async def restart(self) -> None:
        await self.service.stop()
        self.service = ControllerService(self.options, FileStore(str(self.folder)), self.clock)
        await self.service.start()


def run(folder: Path, scenario: Callable[[Lab], Awaitable[None]], **options: object) -> None:
    async def main() -> None:
        lab = Lab(folder, **options)
        await lab.service.start()
        try:
            await scenario(lab)
        finally:
            for broker in lab.brokers:
                await broker.die()
            await lab.service.stop()

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(bounded())


def test_closed_connection_of_the_master_elects_and_tells_the_others(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one, two = await lab.broker(1), await lab.broker(2)
        assert (await one.elect()).code == 0
        for broker in (one, two):
            first = await broker.notices.get()
            assert (first.ext or {})["masterBrokerId"] == "1"
        assert (await one.alter([1, 2], epoch=1, set_epoch=1)).code == 0
        await one.die()
        notice = await two.notices.get()
        assert dict(notice.ext or {}) == {
            "masterAddress": two.address,
            "masterBrokerId": "2",
            "masterEpoch": "2",
            "syncStateSetEpoch": "3",
        }
        assert SyncStateSet.from_json(notice.body_bytes).sync_state_set == {2}
        assert notice.is_oneway

    run(tmp_path, scenario, scan_not_active_broker_interval=3_600_000)


def test_silent_master_is_replaced_without_anybody_asking(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one, two = await lab.broker(1), await lab.broker(2)
        await one.elect()
        await one.alter([1, 2], epoch=1, set_epoch=1)
        await two.notices.get()
        lab.clock.advance(9_000)
        await two.heartbeat()
        lab.clock.advance(1_500)
        notice = await two.notices.get()
        assert (notice.ext or {})["masterBrokerId"] == "2"

    run(tmp_path, scenario, scan_not_active_broker_interval=10)


def test_controller_that_stood_still_blames_no_broker(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one, two = await lab.broker(1), await lab.broker(2)
        await one.elect()
        await one.alter([1, 2], epoch=1, set_epoch=1)
        lab.clock.advance(9_000)
        time.sleep(2.5)  # the whole process: no heartbeat is read, and the clock goes on
        lab.clock.advance(2_400)
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert (await two.ask(1004)).ext == {
                "masterBrokerId": "1",
                "masterAddress": one.address,
                "masterEpoch": "1",
            }

    run(tmp_path, scenario, scan_not_active_broker_interval=100)


def test_state_survives_a_restart_and_the_master_keeps_its_office(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one, two = await lab.broker(1), await lab.broker(2)
        await one.elect()
        await one.alter([1, 2], epoch=1, set_epoch=1)
        await lab.restart()
        for broker in (one, two):
            broker.controller = lab.service.address
        assert (await two.elect()).code == 2011, "the master was not heard of yet, but nor is it missed"
        await one.heartbeat()
        reply = await two.ask(1004)
        assert dict(reply.ext or {}) == {"masterBrokerId": "1", "masterAddress": one.address, "masterEpoch": "1"}
        assert SyncStateSet.from_json(reply.body_bytes) == SyncStateSet(
            sync_state_set=frozenset([1, 2]), sync_state_set_epoch=2
        )
        assert (await two.ask(1012)).ext == {**CLUSTER, "nextBrokerId": "3"}

    run(tmp_path, scenario)


def test_change_that_is_not_durable_is_not_answered_and_did_not_happen(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one = await lab.broker(1)
        kept = lab.store.save

        async def refuse(group: ReplicaGroup) -> None:
            raise StoreIOError("writing", "controller.json", OSError(28, "No space left on device"))

        lab.store.save = refuse  # type: ignore[method-assign]
        assert (await one.elect()).code == 1
        assert (await one.ask(1004)).ext == {"masterEpoch": "0"}
        lab.store.save = kept  # type: ignore[method-assign]
        assert (await one.elect()).code == 0

    run(tmp_path, scenario)


def test_nobody_sees_a_change_before_it_is_durable(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one = await lab.broker(1)
        kept, gate, begun = lab.store.save, asyncio.Event(), asyncio.Event()

        async def wait(group: ReplicaGroup) -> None:
            begun.set()
            await gate.wait()
            await kept(group)

        lab.store.save = wait  # type: ignore[method-assign]
        electing = asyncio.create_task(one.elect())
        await begun.wait()
        assert (await one.ask(1004)).ext == {"masterEpoch": "0"}
        assert one.notices.empty()
        gate.set()
        assert (await electing).code == 0
        assert (await one.notices.get()).code == 1008

    run(tmp_path, scenario)


def test_brokers_that_race_for_an_id_get_different_ones(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        askers = [Broker(lab.service.address, 1) for _ in range(8)]
        replies = await asyncio.gather(
            *(asker.ask(1013, appliedBrokerId=1, registerCheckCode=f"c{i}") for i, asker in enumerate(askers))
        )
        assert sorted(reply.code for reply in replies) == [0, *[2014] * 7]
        for asker in askers:
            await asker.client.close()

    run(tmp_path, scenario)


def test_metadata_names_this_controller_as_leader(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        client = Broker(lab.service.address, 1)
        assert dict((await client.ask(1005)).ext or {}) == {
            "group": "group1",
            "controllerLeaderId": "n0",
            "controllerLeaderAddress": lab.service.address,
            "isLeader": "true",
            "peers": f"n0:{lab.service.address};",
        }
        await client.client.close()

    run(tmp_path, scenario)


def test_config_is_shown_and_only_what_may_change_is_changed(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        client = Broker(lab.service.address, 1)
        shown = parse_properties((await client.ask(1010)).body_bytes.decode())
        assert shown["enableElectUncleanMaster"] == "false"
        refused = await client.ask(1009, b"controllerStorePath=/tmp/x\nenableElectUncleanMaster=true")
        assert refused.code == 16 and "controllerStorePath" in (refused.remark or "")
        assert not lab.options.enable_elect_unclean_master
        assert (await client.ask(1009, b"enableElectUncleanMaster=true")).code == 0
        assert lab.options.enable_elect_unclean_master
        assert (await client.ask(1009, b"enableElectUncleanMaster=maybe")).code != 0
        await client.client.close()

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (1013, {"appliedBrokerId": 1, "registerCheckCode": "x" * 600}, b""),
        (1012, {"brokerName": "n" * 300}, b""),
        (1003, {"brokerId": 1, "brokerAddress": "a\nb"}, b""),
        (1001, {"masterBrokerId": 1, "masterEpoch": 1}, b"[1,2]"),
        (1001, {"masterBrokerId": 1, "masterEpoch": 1}, b'{"syncStateSet":[99999999999999999999]}'),
        (1001, {"masterBrokerId": 1, "masterEpoch": 1}, b'{"syncStateSet":[' + b"1," * 1_500_000 + b"1]}"),
        (1006, {}, b'{"a":1}'),
        (1006, {}, b"[1]"),
    ],
)
def test_hostile_input_is_an_invalid_request(tmp_path: Path, code: int, ext: dict[str, object], body: bytes) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.broker(1)
        stranger = Broker(lab.service.address, 1)
        assert (await stranger.ask(code, body, **ext)).code == 2005
        await stranger.client.close()

    run(tmp_path, scenario)


def test_clock_of_who_asks_decides_nothing(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one = await lab.broker(1)
        await one.elect()
        for moment in (0, -(2**63), 2**63 - 1):
            assert (await one.ask(1002, brokerId=1, invokeTime=moment)).code == 2011
            assert (await one.ask(1002, brokerId=-1, invokeTime=moment)).code == 2011

    run(tmp_path, scenario)


def test_sync_state_data_and_cleaning_over_the_wire(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        one = await lab.broker(1)
        await one.elect()
        body = (await one.ask(1006, b'["broker-a","nobody"]')).body_bytes
        assert list(BrokerReplicasInfo.from_json(body).replicas_info_table) == ["broker-a"]
        assert (await one.ask(1011, brokerControllerIdsToClean="1")).code == 2009
        assert (await one.ask(1011, brokerControllerIdsToClean="1", isCleanLivingBroker="true")).code == 0
        assert (await one.ask(1004)).code == 2008

    run(tmp_path, scenario)


def test_port_in_use_is_reported_and_the_folder_is_free_again(tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        other = ControllerOptions(listen_port=lab.service.port, controller_store_path=str(tmp_path / "other"))
        with pytest.raises(UnavailableError, match="cannot listen"):
            await ControllerService(other).start()
        taken = ControllerService(ControllerOptions(listen_port=0, controller_store_path=str(lab.folder)))
        with pytest.raises(UnavailableError):
            await taken.start()

    run(tmp_path / "one", scenario)


def test_reachable_address_needs_a_word_and_a_name_to_be_found_by() -> None:
    with pytest.raises(InvalidArgumentError, match="insecureBindEnable"):
        ControllerOptions(bind_address="192.0.2.1")
    with pytest.raises(InvalidArgumentError, match="advertisedAddress"):
        ControllerOptions(bind_address="0.0.0.0", insecure_bind_enable=True)
    ControllerOptions(bind_address="0.0.0.0", insecure_bind_enable=True, advertised_address="192.0.2.1:9878")
    with pytest.raises(InvalidArgumentError, match="exclude"):
        ControllerOptions(controller_store_path="x", etcd_endpoints="http://127.0.0.1:2379")
