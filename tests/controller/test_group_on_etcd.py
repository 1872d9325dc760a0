"""Brokers of ours under two controllers on etcd: the leading controller is killed, then the master broker."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from flaremq.client.producer.producer import Producer
from flaremq.errors import FlareMQError
from flaremq.message.message import Message
from flaremq.protocol.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.support.etcd_lab import needs_etcd, running_etcd
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, Server, server

pytestmark = [needs_etcd, pytest.mark.slow]
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
QUICK = {
    "enableControllerMode": "true",
    "brokerHeartbeatInterval": "500",
    "controllerHeartBeatTimeoutMills": "4000",
    "syncBrokerMetadataPeriod": "1000",
    "inSyncReplicas": "1",
}


def _settings(values: dict[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


class Cluster:
    """etcd, two controllers, a name server and two brokers of one name, each a process."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        etcd = stack.enter_context(running_etcd(folder))
        self.controllers: dict[str, Server] = {}
        for number in range(2):
            own = {"controllerDLegerSelfId": f"n{number}", "etcdLeaseSeconds": "2"}
            arguments = ["controller", "--listen", "127.0.0.1:0", "--etcd", etcd.url, *_settings(own)]
            started = stack.enter_context(server(*arguments, cwd=folder))
            self.controllers[ADDRESS.findall(started.ready())[0]] = started
        namesrv = stack.enter_context(server("namesrv", "--listen", "127.0.0.1:0", cwd=folder))
        (self.name_server,) = ADDRESS.findall(namesrv.ready())
        self.brokers: dict[str, Server] = {}
        port = free_ports(2)
        for number in range(2):
            address = f"127.0.0.1:{port + 10 * number}"
            arguments = ["broker", "-n", self.name_server, "--data", str(folder / f"b{number}"), "--listen", address]
            own = {**QUICK, "brokerName": "broker-a", "controllerAddr": ";".join(self.controllers)}
            self.brokers[address] = stack.enter_context(server(*arguments, *_settings(own), *SMALL, cwd=folder))

    async def replicas(self) -> tuple[str, ReplicasInfo] | None:
        """The controller that leads and what it knows, if one does."""
        client = RemotingClient()
        request = RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=b'["broker-a"]')
        try:
            for address in self.controllers:
                try:
                    reply = await client.request(address, request)
                except FlareMQError:
                    continue
                table = BrokerReplicasInfo.from_json(reply.body_bytes).replicas_info_table if reply.code == 0 else {}
                if "broker-a" in table:
                    return address, table["broker-a"]
            return None
        finally:
            await client.close()

    async def until(self, *, in_sync: int, without: str = "") -> tuple[str, ReplicasInfo]:
        """Wait for so many brokers in sync under a master, and a leading controller, other than this one."""
        while True:
            found = await self.replicas()
            if found is not None and without not in (found[0], found[1].master_address):
                living = [replica for replica in found[1].in_sync_replicas if replica.alive]
                if found[1].master_address and len(living) == in_sync:
                    return found
            await asyncio.sleep(0.1)


async def _send(producer: Producer, body: bytes) -> None:
    while True:
        try:
            await producer.send(Message("orders", body))
            return
        except FlareMQError:
            await asyncio.sleep(0.1)


def test_group_outlives_the_leading_controller_and_then_its_master(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader, before = await cluster.until(in_sync=2)
        async with Producer(cluster.name_server) as producer:
            await _send(producer, b"first")
            killed = cluster.controllers[leader]
            killed.process.kill()
            await asyncio.to_thread(killed.wait)
            second, between = await cluster.until(in_sync=2, without=leader)
            assert (between.master_broker_id, between.master_epoch) == (before.master_broker_id, before.master_epoch)
            await _send(producer, b"second")
            old = between.master_address or ""
            master = cluster.brokers[old]
            master.process.kill()
            await asyncio.to_thread(master.wait)
            third, after = await cluster.until(in_sync=1, without=old)
            assert (third, after.master_epoch) == (second, before.master_epoch + 1)
            await _send(producer, b"third")

    async def bounded(cluster: Cluster) -> None:
        async with asyncio.timeout(90):
            await scenario(cluster)

    with ExitStack() as stack:
        asyncio.run(bounded(Cluster(stack, tmp_path)))
