"""TLS at every port of our servers, and between them: each has a certificate of its own, of one authority."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from flaremq.errors import UnavailableError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting import server as server_module
from flaremq.remoting import tls
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.tls import TlsContext, TlsSettings
from tests.support.broker_lab import send_header, until
from tests.support.certificate import Authority
from tests.support.group_lab import SMALL, GroupLab, Member, caught_up
from tests.support.group_lab import run as run_group
from tests.support.ports import free_ports

NOBODY = 9999  # a request code that every server answers, and none knows


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def certified(authority: Authority, name: str, **more: str) -> dict[str, Any]:
    """Options of a server with a certificate of its own."""
    certificate, key = authority.issue(name)
    own = {"tlsCertPath": str(certificate), "tlsKeyPath": str(key), "tlsTrustPath": str(authority.trust_path)}
    return own | more


def context(authority: Authority, name: str = "") -> TlsContext:
    certificate, key = map(str, authority.issue(name)) if name else ("", "")
    return TlsContext(
        TlsSettings(
            is_server=False,
            proof="require",
            trust_path=str(authority.trust_path),
            cert_path=certificate,
            key_path=key,
        )
    )


async def is_served(address: str, encryption: TlsContext | None) -> bool:
    client = RemotingClient(tls=encryption)
    try:
        await client.request(address, RemotingCommand.request(NOBODY), 20)
    except UnavailableError:
        return False
    else:
        return True
    finally:
        await client.close()


class Lab:
    """Name server, controller and brokers, each with its own options."""

    def __init__(self, folder: Path, options: Callable[[str], dict[str, Any]]) -> None:
        self.folder = folder
        self._options = options
        self._exit = AsyncExitStack()
        self.brokers: list[BrokerService] = []

    async def __aenter__(self) -> Lab:
        kv_path = str(self.folder / "kvConfig.json")
        properties = {"listenPort": "0", "kvConfigPath": kv_path} | self._options("namesrv")
        self.namesrv = NamesrvService(NamesrvOptions.from_properties(properties))
        await self._start(self.namesrv)
        place = {"listenPort": "0", "controllerStorePath": str(self.folder / "controller")}
        self.controller = ControllerService(ControllerOptions.from_properties(place | self._options("controller")))
        await self._start(self.controller)
        return self

    async def _start(self, server: Any) -> None:
        await server.start()
        self._exit.push_async_callback(server.stop)

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def broker(self, name: str, **more: str) -> BrokerService:
        options = SMALL | {"listenPort": str(free_ports()), "namesrvAddr": self.namesrv.address} | self._options(name)
        broker = BrokerService(self.folder / name, *load_options(None, options | more))
        await self._start(broker)
        self.brokers.append(broker)
        return broker

    async def member(self, name: str) -> BrokerService:
        """A broker that the controller gives its role."""
        mode = {"enableControllerMode": "true", "controllerAddr": self.controller.address}
        timing = {"brokerHeartbeatInterval": "200", "syncBrokerMetadataPeriod": "200"}
        broker = await self.broker(name, **mode, **timing)
        assert broker.controller_mode is not None
        await asyncio.wait_for(broker.controller_mode.has_role.wait(), 30)
        return broker


def run(folder: Path, options: Callable[[str], dict[str, Any]], scenario: Callable[[Lab], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), Lab(folder, options) as lab:
            await scenario(lab)

    asyncio.run(main())


async def routed(lab: Lab, encryption: TlsContext | None) -> bytes:
    client = RemotingClient(tls=encryption)
    try:
        request = RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO)
        return (await client.request(lab.namesrv.address, request, 20)).body_bytes
    finally:
        await client.close()


@pytest.mark.parametrize("outgoing", ["always", "auto", "never"])
@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
def test_every_port_takes_what_its_mode_says(tmp_path: Path, authority: Authority, mode: str, outgoing: str) -> None:
    def options(name: str) -> dict[str, Any]:
        return certified(authority, name, tlsMode=mode, tlsClientAuth="none", tlsOutgoing=outgoing)

    async def scenario(lab: Lab) -> None:
        broker = await lab.broker("broker")
        ports = [lab.namesrv.port, lab.controller.port, broker.port, broker.port - 2]
        for port in ports:
            assert await is_served(f"127.0.0.1:{port}", context(authority)), port
            assert await is_served(f"127.0.0.1:{port}", None) == (mode == "permissive"), port
        # Whether the broker speaks TLS to its name server is another matter.
        is_registered = b'"broker-a"' in (await routed(lab, context(authority)))
        assert is_registered == (mode == "permissive" or outgoing != "never")

    run(tmp_path, options, scenario)


def test_servers_that_ask_for_certificates_find_each_other_and_change_masters(
    tmp_path: Path, authority: Authority
) -> None:
    def options(name: str) -> dict[str, Any]:
        more = {"haTlsMode": "enforcing"} if name.startswith("broker") else {}
        return certified(authority, name, tlsMode="enforcing", **more)

    async def scenario(lab: Lab) -> None:
        first, second = await lab.member("broker-1"), await lab.member("broker-2")
        assert not await is_served(first.address, context(authority)), "a certificate is asked for"
        await until(lambda: in_sync(first) == 2, "the other one counts")
        client = RemotingClient(tls=context(authority, "client"))
        try:
            header = send_header("orders").encode_letters()
            request = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header, b"encrypted")
            assert (await client.request(first.address, request, 30)).code == 0
            sent = first.store.max_physical_offset
            await until(lambda: second.store.max_physical_offset == sent, "a copy")
            await first.stop()
            await until(lambda: second.is_open and second.role.is_master, "another master")
            assert second.store.max_physical_offset == sent > 0
        finally:
            await client.close()

    run(tmp_path, options, scenario)


def in_sync(master: BrokerService) -> int:
    state = master.ha.replicas.sync_state
    return 0 if state is None or state.is_changing else len(state.members)


# The port for slaves


def replicated(authority: Authority, name: str) -> dict[str, Any]:
    return certified(authority, name, haTlsMode="enforcing")


async def put(master: Member, body: bytes) -> None:
    assert (await master.send("orders", body)).code == 0


def test_slave_and_master_with_certificates_of_one_authority_replicate(tmp_path: Path, authority: Authority) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(**replicated(authority, "master"))
        slave = await lab.slave(**replicated(authority, "slave"))
        await put(master, b"encrypted")
        await caught_up(slave, master)
        assert slave.log_end == master.log_end > 0

    run_group(tmp_path, scenario)


@pytest.mark.parametrize("has_certificate", [True, False])
def test_slave_that_the_master_does_not_know_gets_nothing_and_says_so(
    tmp_path: Path, authority: Authority, has_certificate: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(**replicated(authority, "master"))
        await put(master, b"not for everybody")
        settings: dict[str, Any] = {}
        if has_certificate:
            # It believes the master, and shows what another authority signed.
            strange = certified(Authority(tmp_path / "strange", "strange"), "slave", haTlsMode="enforcing")
            settings = strange | {"haTlsTrustPath": str(authority.trust_path)}
        slave = await lab.slave(**settings)
        client = slave.broker.ha.client
        assert client is not None
        await until(lambda: bool(client.facts.failure), "the slave is turned away")
        assert slave.log_end == 0 and not client.facts.is_connected
        assert "an HA connection ended before its first byte" in caplog.text

    run_group(tmp_path, scenario)


def test_renewed_certificates_are_for_the_next_connection_of_a_slave(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(server_module, "_SWEEP_SECONDS", 0.02)

    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(**replicated(authority, "master"))
        slave = await lab.slave(**replicated(authority, "slave"))
        await put(master, b"one")
        await caught_up(slave, master)
        renewed = Authority(tmp_path / "renewed")  # what was signed before is worth nothing now
        for name in ("master", "slave"):
            for old, new in zip(authority.issue(name), renewed.issue(name), strict=True):
                old.write_bytes(new.read_bytes())
        authority.trust_path.write_bytes(renewed.trust_path.read_bytes())
        await put(master, b"two")
        await caught_up(slave, master)  # over the connection that stands
        client = slave.broker.ha.client
        assert client is not None
        address = client.facts.master_address
        client.set_master(None)
        await until(lambda: not client.facts.is_connected, "the connection is closed")
        client.set_master(address)
        await put(master, b"three")
        await caught_up(slave, master)

    run_group(tmp_path, scenario)
