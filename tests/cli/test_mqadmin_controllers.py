"""mqadmin's commands about controllers: lines as the tool of RocketMQ 5.5.0 prints them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.client.blocking import LoopThread
from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from flaremq.protocol.bodies.controller import EpochEntry, EpochEntryCache, SyncStateSet
from flaremq.protocol.bodies.replication import HAClientRuntimeInfo, HARuntimeInfo
from flaremq.protocol.bodies.route import BrokerData, ClusterInfo
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.server import RemotingServer
from tests.support.cli import flaremq

NAMES = {"clusterName": "DefaultCluster", "brokerName": "broker-a"}
ADDRESSES = {1: "127.0.0.1:10", 2: "127.0.0.1:20"}


class Lab:
    """A controller that knows two brokers in sync, and one server that is both their name server and a broker."""

    def __init__(self, folder: Path) -> None:
        options = ControllerOptions(listen_port=0, controller_store_path=str(folder), notify_broker_role_changed=False)
        self.service = ControllerService(options)
        self.table = HandlerTable()
        self.server = RemotingServer(self.table)
        self.clients: dict[int, RemotingClient] = {}
        self.reset_to = ""

    async def start(self) -> None:
        await self.service.start()
        self.table.register(RequestCode.GET_BROKER_CLUSTER_INFO, self._cluster_info)
        self.table.register(RequestCode.GET_BROKER_EPOCH_CACHE, self._epochs)
        self.table.register(RequestCode.RESET_MASTER_FLUSH_OFFSET, self._reset)
        self.table.register(RequestCode.GET_BROKER_HA_STATUS, self._ha_status)
        await self.server.start("127.0.0.1", 0)
        for broker_id in ADDRESSES:
            self.clients[broker_id] = RemotingClient()
            await self.join(broker_id)
        assert (await self.ask(1, 1002, brokerId=1)).code == 0
        body = SyncStateSet(sync_state_set=frozenset([1, 2]), sync_state_set_epoch=1).to_json()
        assert (await self.ask(1, 1001, body, masterBrokerId=1, masterEpoch=1)).code == 0

    async def join(self, broker_id: int) -> None:
        address = ADDRESSES[broker_id]
        await self.ask(broker_id, 1013, appliedBrokerId=broker_id, registerCheckCode=address)
        await self.ask(broker_id, 1003, brokerId=broker_id, brokerAddress=address)
        await self.ask(broker_id, 904, brokerId=broker_id, brokerAddr=address, heartbeatTimeoutMills=300_000)

    async def ask(self, broker_id: int, code: int, body: bytes = b"", **ext: object) -> RemotingCommand:
        request = RemotingCommand.request(code, {**NAMES, **{key: str(value) for key, value in ext.items()}}, body)
        return await self.clients[broker_id].request(self.service.address, request)

    def _cluster_info(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        data = BrokerData(cluster="DefaultCluster", broker_name="broker-a", broker_addrs={0: self.broker})
        info = ClusterInfo(broker_addr_table={"broker-a": data}, cluster_addr_table={"DefaultCluster": ("broker-a",)})
        return RemotingCommand.response(body=info.to_json())

    def _epochs(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        entries = (EpochEntry(epoch=1, start_offset=0, end_offset=50), EpochEntry(epoch=2, start_offset=50))
        cache = EpochEntryCache(
            cluster_name="DefaultCluster", broker_name="broker-a", epoch_list=entries, max_offset=236
        )
        return RemotingCommand.response(body=cache.to_json())

    def _reset(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.reset_to = request.field("masterFlushOffset")
        return RemotingCommand.response()

    def _ha_status(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        client = HAClientRuntimeInfo(master_addr="127.0.0.1:11", max_offset=236, transferred_byte_in_second=2048)
        return RemotingCommand.response(body=HARuntimeInfo(ha_client_runtime_info=client).to_json())

    @property
    def broker(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def stop(self) -> None:
        for client in self.clients.values():
            await client.close()
        await self.server.stop()
        await self.service.stop()

    def mqadmin(self, *words: object) -> str:
        done = flaremq("mqadmin", *words, "-n", self.broker)
        assert (done.code, done.err) == (0, ""), done
        return done.out


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    thread = LoopThread("controller-lab")

    async def begin() -> Lab:
        made = Lab(tmp_path)
        await made.start()
        return made

    running = thread.call(begin())
    try:
        yield running
    finally:
        thread.call(running.stop())
        thread.close()


SET = """
#brokerName\tbroker-a
#MasterBrokerId\t1
#MasterAddr\t127.0.0.1:10
#MasterEpoch\t1
#SyncStateSetEpoch\t2
#SyncStateSetNums\t2

InSyncReplica:\tReplicaIdentity{brokerName='broker-a', brokerId=1, brokerAddress='127.0.0.1:10', alive=true}

InSyncReplica:\tReplicaIdentity{brokerName='broker-a', brokerId=2, brokerAddress='127.0.0.1:20', alive=true}
"""


def test_sync_state_set_of_a_broker_and_of_a_cluster(lab: Lab) -> None:
    assert lab.mqadmin("getSyncStateSet", "-a", lab.service.address, "-b", "broker-a") == SET
    assert lab.mqadmin("getSyncStateSet", "-a", lab.service.address, "-c", "DefaultCluster") == SET
    assert flaremq("mqadmin", "getSyncStateSet", "-a", lab.service.address).code == 2
    unknown = flaremq("mqadmin", "getSyncStateSet", "-a", lab.service.address, "-b", "nobody")
    assert unknown.code != 0 and "knows no broker 'nobody'" in unknown.err


def test_metadata_names_group_leader_and_peers(lab: Lab) -> None:
    address = lab.service.address
    assert lab.mqadmin("getControllerMetaData", "-a", address) == (
        f"\n#ControllerGroup\tgroup1\n#ControllerLeaderId\tn0\n#ControllerLeaderAddress\t{address}\n#Peer:\tn0:{address}\n"
    )


def test_config_is_shown_and_changed(lab: Lab) -> None:
    address = lab.service.address
    shown = lab.mqadmin("getControllerConfig", "-a", address).splitlines()
    assert shown[0] == f"============{address}============"
    assert f"{'enableElectUncleanMaster':<50}=  false" in shown
    change = ("updateControllerConfig", "-a", address, "-k")
    assert lab.mqadmin(*change, "enableElectUncleanMaster", "-v", "true") == (
        f"update controller config success![{address}]\nenableElectUncleanMaster : true\n"
    )
    assert f"{'enableElectUncleanMaster':<50}=  true" in lab.mqadmin("getControllerConfig", "-a", address)
    refused = flaremq("mqadmin", *change, "controllerStorePath", "-v", "/x")
    assert refused.code == 3 and "NO_PERMISSION" in refused.err


def test_epochs_of_a_broker_end_where_its_log_ends(lab: Lab) -> None:
    lines = (
        f"\n#clusterName\tDefaultCluster\n#brokerName\tbroker-a\n#brokerAddr\t{lab.broker}\n#brokerId\t0\n"
        "#Epoch: EpochEntry{epoch=1, startOffset=0, endOffset=50}\n"
        "#Epoch: EpochEntry{epoch=2, startOffset=50, endOffset=236}\n"
    )
    assert lab.mqadmin("getBrokerEpoch", "-b", "broker-a") == lines
    assert lab.mqadmin("getBrokerEpoch", "-c", "DefaultCluster") == lines
    assert flaremq("mqadmin", "getBrokerEpoch", "-n", lab.broker).code == 2


def test_master_is_handed_over_and_a_dead_broker_forgotten(lab: Lab) -> None:
    address = lab.service.address
    elect = ("electMaster", "-a", address, "-c", "DefaultCluster", "-bn", "broker-a", "-b")
    assert lab.mqadmin(*elect, 2) == (
        "\n#ClusterName\tDefaultCluster\n#BrokerName\tbroker-a\n#BrokerMasterAddr\t127.0.0.1:20\n#MasterEpoch\t2\n"
        "#SyncStateSetEpoch\t3\n"
    )
    refused = flaremq("mqadmin", *elect, 1, "-n", lab.broker)
    assert refused.code == 3 and "CONTROLLER_ELECT_MASTER_FAILED" in refused.err, "it is not in sync any more"
    clean = ("cleanBrokerMetadata", "-a", address, "-bn", "broker-a")
    assert flaremq("mqadmin", *clean, "-b", "1").code == 2, "RocketMQ's tool wants the cluster, too"
    assert flaremq("mqadmin", *clean, "-b", "one", "-l").code == 2
    alive = flaremq("mqadmin", *clean, "-b", "1", "-c", "DefaultCluster", "-n", lab.broker)
    assert alive.code == 3 and "still alive" in alive.err
    done = "clear broker broker-a metadata from controller success! \n"
    assert lab.mqadmin(*clean, "-b", "1", "-l") == done
    assert "brokerId=1" not in lab.mqadmin("getSyncStateSet", "-a", address, "-b", "broker-a")


def test_flush_offset_is_reset_and_a_slave_shows_its_times(lab: Lab) -> None:
    assert lab.mqadmin("resetMasterFlushOffset", "-b", lab.broker, "-o", 5) == (
        "reset master flush offset to 5 success\n"
    )
    assert lab.reset_to == "5"
    shown = lab.mqadmin("haStatus", "-b", lab.broker).splitlines()
    assert shown[:4] == ["", "#MasterAddr\t127.0.0.1:11", "#CommitLogMaxOffset\t236", "#TransferSpeed(KB/s)\t2.00"]
    assert shown[4].startswith("#LastReadTime\t1970-01-01 ") and shown[6] == "#MasterFlushOffset\t0"


def test_controller_that_is_not_there_is_one_sentence(lab: Lab) -> None:
    done = flaremq("mqadmin", "getControllerMetaData", "-a", "127.0.0.1:1")
    assert done.code == 3 and done.err.count("\n") == 1
