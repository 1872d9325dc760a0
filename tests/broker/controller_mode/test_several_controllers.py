"""Brokers under two controllers that share an etcd: when one ends, the other decides, and the brokers find it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.cli.servers.child import free_broker_ports
from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from tests.support.etcd_lab import needs_etcd, running_etcd
from tests.support.failover_lab import FailoverLab, until

pytestmark = [needs_etcd, pytest.mark.slow]
OK = 0


class _EtcdLab(FailoverLab):
    """As its base, with two controllers on an etcd."""

    def __init__(self, path: Path, etcd: str) -> None:
        super().__init__(path, controllerHeartBeatTimeoutMills="8000")
        self._etcd = etcd
        self._addresses = [f"127.0.0.1:{port}" for port in free_broker_ports(2)]
        self.controllers: list[ControllerService] = []

    @property
    def controller_addresses(self) -> str:
        return ";".join(self._addresses)

    async def start_controller(self) -> None:
        for number, address in enumerate(self._addresses):
            properties = {
                "listenPort": address.rpartition(":")[2],
                "etcdEndpoints": self._etcd,
                "etcdLeaseSeconds": "2",
                "controllerDLegerSelfId": f"n{number}",
            }
            self.controllers.append(ControllerService(ControllerOptions.load(None, properties)))
            await self.controllers[-1].start()
        await until(lambda: any(one.is_leading for one in self.controllers), "a leading controller")
        self.controller = next(one for one in self.controllers if not one.is_leading)  # stopped by the base at the end

    async def stop_leader(self) -> None:
        leader = next(one for one in self.controllers if one.is_leading)
        assert leader is not self.controller
        await leader.stop()


def test_a_group_goes_on_when_the_leading_controller_ends_and_fails_over_under_the_next(tmp_path: Path) -> None:
    async def scenario(etcd: str) -> None:
        async with _EtcdLab(tmp_path, etcd) as lab:
            master = await lab.start_all(2)
            other = lab.brokers[1]
            assert (await lab.send(master, b"one")).code == OK
            await lab.stop_leader()
            await until(lambda: lab.controller.is_leading, "the next leader")
            assert (await lab.send(master, b"two")).code == OK
            assert master.controller_mode is not None
            membership = master.controller_mode.membership
            await until(lambda: membership.leader == lab.controller.address, "the brokers to find it")
            assert (master.role.epoch, membership.epoch) == (1, 1)
            await lab.stop(0)
            await until(lambda: other.role.accepts_writes, "a new master")
            assert (await lab.send(other, b"three")).code == OK

    with running_etcd(tmp_path) as etcd:
        asyncio.run(asyncio.wait_for(scenario(etcd.url), 60))
