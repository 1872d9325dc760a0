"""What ``flaremq up`` tells which of its servers: options of connections count for all, addresses in their order."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from time import monotonic

import pytest

from flaremq.broker.options import load_options
from flaremq.cli.servers.proxy_beside import proxy_beside, without_own_ports
from flaremq.cli.servers.user_options import UserOptions, reachable
from flaremq.errors import UnavailableError
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.grpc.door_lab import message
from tests.support.cli import flaremq
from tests.support.grpc_lab import client_of
from tests.support.guarded_lab import write_private
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server

ADDRESS = re.compile(r"127\.0\.0\.\d+:\d+")
NAME_SERVER = "127.0.0.1:9876"
BROKER = "127.0.0.1:10911"


def given(tmp_path: Path, *assignments: str, of_file: str = "") -> UserOptions:
    file = tmp_path / "broker.conf"
    file.write_text(of_file, encoding="utf-8")
    return UserOptions.read(str(tmp_path), str(file), assignments)


def broker_place(given: UserOptions, flag: str | None) -> str:
    options = given.broker_options(flag, BROKER, NAME_SERVER)
    return f"{options['bindAddress']}:{options['listenPort']}"


@pytest.mark.parametrize(
    ("of_file", "flag", "assigned", "name_server", "broker"),
    [
        ("", None, [], "127.0.0.1:9876", "127.0.0.1:10911"),
        ("bindAddress=10.0.0.1\nlistenPort=1", None, [], "10.0.0.1:9876", "10.0.0.1:1"),
        ("bindAddress=10.0.0.1\nlistenPort=1", "10.0.0.2:2", [], "10.0.0.2:2", "10.0.0.2:2"),
        ("", "10.0.0.2:2", ["bindAddress=10.0.0.3"], "10.0.0.3:2", "10.0.0.3:2"),
        ("bindAddress=10.0.0.1", None, ["listenPort=3"], "10.0.0.1:9876", "10.0.0.1:3"),
        ("", None, ["bindAddress=::1"], "[::1]:9876", "::1:10911"),
    ],
)
def test_address_comes_from_the_command_line_then_the_flag_then_the_file(
    tmp_path: Path, of_file: str, flag: str | None, assigned: list[str], name_server: str, broker: str
) -> None:
    found = given(tmp_path, *assigned, of_file=of_file)
    assert (found.address(flag, NAME_SERVER), broker_place(found, flag)) == (name_server, broker)


def test_options_of_connections_and_of_access_reach_the_other_servers(tmp_path: Path) -> None:
    found = given(
        tmp_path,
        *("tlsMode=enforcing", "aclEnable=true", "insecureBindEnable=true", "brokerName=b", "listenPort=1"),
        of_file="connectionsMax=10\ntlsMode=permissive\nauthConfigPath=/accounts\nflushDiskType=ASYNC_FLUSH\n",
    )
    assert found.shared == {
        "tlsMode": "enforcing",
        "connectionsMax": "10",
        "aclEnable": "true",
        "insecureBindEnable": "true",
        "aclHome": str(tmp_path),
        "authConfigPath": "/accounts",
    }
    broker = found.broker_options(None, BROKER, NAME_SERVER)
    assert (broker["aclHome"], broker["authConfigPath"]) == (str(tmp_path), "/accounts")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("0.0.0.0:9876", "127.0.0.1:9876"),
        ("[::]:9876", "[::1]:9876"),
        ("10.0.0.1:9876", "10.0.0.1:9876"),
        ("name:9876", "name:9876"),
    ],
)
def test_servers_of_this_machine_are_told_an_address_and_not_every_address(address: str, found: str) -> None:
    assert reachable(address) == found


async def codes(addresses: list[str]) -> list[int]:
    client = RemotingClient()
    try:
        request = RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO)
        return [(await client.request(address, request, 20)).code for address in addresses]
    finally:
        await client.close()


@pytest.mark.slow
def test_bind_address_is_where_all_servers_of_the_command_listen(tmp_path: Path) -> None:
    port = free_ports(4)
    arguments = ["up", "--replicas", 2, "--data", tmp_path / "data", "--set", "bindAddress=127.0.0.2"]
    arguments += ["--listen", f"127.0.0.1:{port}", "--broker-listen", f"127.0.0.1:{port + 10}"]
    with server(*arguments, "--set", "brokerIP1=127.0.0.2", *SMALL, cwd=tmp_path) as up:
        line = up.ready()
        found = ADDRESS.findall(line)
        assert len(found) == 4
        assert {address.partition(":")[0] for address in found} == {"127.0.0.2"}
        assert asyncio.run(codes(found[:1])) == [0]
        assert up.stop() == 0


@pytest.mark.slow
def test_file_of_options_says_where_the_broker_listens(tmp_path: Path) -> None:
    port = free_ports(2)
    conf = tmp_path / "broker.conf"
    conf.write_text(f"listenPort={port + 10}\nfirstFrameSeconds=5\n", encoding="utf-8")
    with server(
        "up", "-c", conf, "--data", tmp_path / "data", "--listen", f"127.0.0.1:{port}", *SMALL, cwd=tmp_path
    ) as up:
        assert ADDRESS.findall(up.ready()) == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 10}"]
        assert up.stop() == 0


@pytest.mark.parametrize("more", [[], ["--replicas", 2]])
def test_servers_that_would_turn_each_other_away_are_not_started(tmp_path: Path, more: list[object]) -> None:
    outcome = flaremq("up", *more, "--data", tmp_path / "data", "--set", "authenticationEnabled=true")
    assert outcome.code == 2 and "needs innerClientAuthenticationCredentials" in outcome.err
    assert not (tmp_path / "data").exists()


def test_a_broker_that_signs_nothing_at_its_name_server_is_warned_of(tmp_path: Path) -> None:
    settings = ["--set", "aclEnable=true", "--set", "tlsMode=enforcing"]  # without certificates nothing starts
    inner = write_private(tmp_path / "inner", '{"accessKey":"administrator","secretKey":"adminsecret"}')
    for more, is_warned in (([], True), (["--set", f"innerClientAuthenticationCredentials=file:{inner}"], False)):
        outcome = flaremq("up", "--data", tmp_path / "data", *settings, *more)
        assert outcome.code == 2
        assert ("warning: aclEnable without innerClientAuthenticationCredentials" in outcome.err) is is_warned


@pytest.mark.slow
def test_a_broker_beside_a_name_server_on_any_free_port_is_known_to_it(tmp_path: Path) -> None:
    arguments = ["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0", *SMALL]
    with server("up", "--data", tmp_path / "data", *arguments, cwd=tmp_path) as up:
        name_server = ADDRESS.findall(up.ready())[0]
        deadline = monotonic() + 20  # the broker registers a moment after it is ready
        while (outcome := flaremq("topic", "create", "orders", "-n", name_server)).code != 0:
            assert monotonic() < deadline, outcome.err
        assert up.stop() == 0


@pytest.mark.parametrize(
    ("of_file", "flag", "assigned", "port"),
    [
        ("", None, [], None),
        ("", "", [], "8081"),
        ("", "127.0.0.1:18081", [], "18081"),
        ("grpcServerPort=9000", "", [], "9000"),
        ("grpcServerPort=-1", "", [], "8081"),
        ("grpcServerPort=9000", "127.0.0.1:18081", [], "18081"),
        ("grpcServerPort=9000", "127.0.0.1:18081", ["grpcServerPort=9001"], "9001"),
    ],
)
def test_the_port_of_grpc_comes_from_the_command_line_then_the_flag_then_the_file(
    tmp_path: Path, of_file: str, flag: str | None, assigned: list[str], port: str | None
) -> None:
    found = given(tmp_path, *assigned, of_file=of_file).with_grpc(flag, "127.0.0.1")
    assert found.broker_options(None, BROKER, NAME_SERVER).get("grpcServerPort") == port


def test_the_port_of_grpc_is_at_the_broker_s_own_address(tmp_path: Path) -> None:
    for arguments in (["--grpc", "127.0.0.2:8081"], ["--grpc", "127.0.0.1:8081", "--set", "bindAddress=127.0.0.3"]):
        outcome = flaremq("up", "--data", tmp_path / "data", *arguments)
        assert outcome.code == 2 and "the port of gRPC is at the broker's own address, 127.0.0." in outcome.err


@pytest.mark.slow
def test_two_brokers_of_a_machine_and_their_ports_of_grpc(tmp_path: Path) -> None:
    port = free_ports(1)
    place = ["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0", *SMALL[:-2]]
    with server("up", "--data", tmp_path / "one", *place, "--grpc", f"127.0.0.1:{port}", cwd=tmp_path) as one:
        assert f"gRPC 127.0.0.1:{port}, data" in one.ready()
        outcome = flaremq("up", "--data", tmp_path / "two", *place, "--grpc", f"127.0.0.1:{port}")
        assert outcome.code == 3
        assert f"cannot listen on 127.0.0.1:{port} for gRPC: " in outcome.err
        assert outcome.out == ""
        with server("up", "--data", tmp_path / "two", *place, "--grpc", "127.0.0.1:0", cwd=tmp_path) as two:
            found = re.findall(r"gRPC 127.0.0.1:(\d+), data", two.ready())
            assert found and int(found[0]) not in (0, port)
            assert two.stop() == 0
        assert one.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["--grpc", "--set"])
def test_replicas_are_served_over_grpc_by_one_port_before_them(tmp_path: Path, name: str) -> None:
    port = free_ports(5)
    arguments = ["up", "--replicas", 2, "--data", tmp_path / "data", *SMALL[:-2]]
    arguments += [name, f"127.0.0.1:{port + 4}" if name == "--grpc" else f"grpcServerPort={port + 4}"]
    arguments += ["--listen", f"127.0.0.1:{port}", "--broker-listen", "127.0.0.1:0"]
    with server(*arguments, cwd=tmp_path) as up:
        assert up.ready().count(f", gRPC 127.0.0.1:{port + 4}, data") == 1
        assert flaremq("topic", "create", "orders", "-n", f"127.0.0.1:{port}").code == 0
        asyncio.run(_send_over_grpc(port + 4))
        assert up.stop() == 0


@pytest.mark.parametrize(
    ("assigned", "flag", "port", "is_asked_for"),
    [
        ([], None, 8081, False),
        ([], "", 8081, True),
        ([], "127.0.0.1:18081", 18081, True),
        (["grpcServerPort=18081"], None, 18081, True),
        (["grpcServerPort=-1"], None, None, False),
        (["listenPort=0"], None, None, False),
        (["listenPort=0"], "", 8081, True),
        (["innerClientAuthenticationCredentials=env:INNER"], None, None, False),  # a proxy would lend them to everybody
    ],
)
def test_before_replicas_a_proxy_serves_grpc_and_none_of_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    assigned: list[str],
    flag: str | None,
    port: int | None,
    is_asked_for: bool,
) -> None:
    monkeypatch.setenv("INNER", '{"accessKey":"inner","secretKey":"inner-secret"}')
    user = given(tmp_path, *assigned)
    settings = user.broker_options(None, BROKER, NAME_SERVER)
    options, *_ = load_options(user.config_file, settings)
    found = proxy_beside(user, flag, options, NAME_SERVER)
    assert [one._proxy.options.grpc.grpc_server_port for one in found] == ([] if port is None else [port])
    assert [one._is_asked_for for one in found] == ([] if port is None else [is_asked_for])
    assert without_own_ports(settings)["grpcServerPort"] == "-1"


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_a_port_that_is_taken_is_done_without_unless_asked_for(
    tmp_path: Path, is_asked_for: bool, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_ports(1)

    async def within() -> None:
        name_server = NamesrvService(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
        await name_server.start()
        try:
            user = given(tmp_path, f"grpcServerPort={port}")
            options, *_ = load_options(user.config_file, user.broker_options(None, BROKER, name_server.address))
            (proxy,) = proxy_beside(user, None, options, name_server.address)
            proxy._is_asked_for = is_asked_for
            taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
            async with taken:
                if is_asked_for:
                    with pytest.raises(UnavailableError, match=f"cannot listen on 127.0.0.1:{port} for gRPC"):
                        await proxy.start()
                else:
                    await proxy.start()
                    assert f"no port for gRPC: cannot listen on 127.0.0.1:{port}" in caplog.text
                assert proxy.part == ""
                await proxy.stop()
            await proxy.start()
            assert proxy.part == f", gRPC 127.0.0.1:{port}"
            await proxy.stop()
        finally:
            await name_server.stop()

    asyncio.run(within())


async def _send_over_grpc(port: int) -> None:
    request = classes.SendMessageRequest(messages=[message("orders")])
    async with client_of(port) as client, asyncio.timeout(30):
        while (reply := await client.unary("SendMessage", request)).status.code == Code.TOPIC_NOT_FOUND:
            await asyncio.sleep(0.1)  # what a proxy knows of topics is some seconds old
        assert reply.status.code == Code.OK
