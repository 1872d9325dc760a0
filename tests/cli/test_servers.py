"""The commands that start servers: ready line, clean stop, several processes, and what they say when it fails."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from pathlib import Path

import pytest

from flaremq.protocol.bodies.route import TopicRouteData
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.support.broker_lab import send_header
from tests.support.cli import flaremq
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server

ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


def ask(address: str, request: RemotingCommand) -> RemotingCommand:
    async def main() -> RemotingCommand:
        client = RemotingClient()
        try:
            return await client.request(address, request, 20.0)
        finally:
            await client.close()

    return asyncio.run(main())


def send(address: str, topic: str = "orders", body: bytes = b"body") -> int:
    header = send_header(topic)
    return ask(address, RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header.encode_letters(), body)).code


def broker_names(name_server: str) -> list[str]:
    reply = ask(name_server, RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "DefaultCluster"}))
    route = TopicRouteData.from_json(reply.body_bytes)
    return sorted(data.broker_name for data in route.broker_datas)


# Started and stopped


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_says_when_it_is_ready_serves_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    arguments = [
        "up",
        "--data",
        data,
        "--listen",
        f"127.0.0.1:{free_ports(1)}",
        "--broker-listen",
        "127.0.0.1:0",
        *SMALL,
    ]
    with server(*arguments, cwd=tmp_path) as up:
        line = up.ready()
        name_server, broker = ADDRESS.findall(line)
        assert "ready" in line and "SYNC_FLUSH" in line and str(data) in line
        assert send(broker) == 0
        assert broker_names(name_server)
        assert (data / "abort").exists()
        assert up.stop(number) == 0
        assert up.errors == ""
    assert not (data / "abort").exists(), "everything was written and marked as closed"


@pytest.mark.slow
def test_name_server_and_broker_of_their_own_find_each_other(tmp_path: Path) -> None:
    with server("namesrv", "--listen", "127.0.0.1:0", cwd=tmp_path) as namesrv:
        (name_server,) = ADDRESS.findall(namesrv.ready())
        config = tmp_path / "broker.conf"
        config.write_text("brokerName=from-file\nflushDiskType = ASYNC_FLUSH\nlistenPort=0\n")
        arguments = ["broker", "-n", name_server, "--data", tmp_path / "store", "-c", config, *SMALL]
        with server(*arguments, cwd=tmp_path) as broker:
            line = broker.ready()
            assert "ASYNC_FLUSH" in line
            assert broker_names(name_server) == ["from-file"]
            assert broker.stop() == 0
        assert namesrv.stop() == 0
        assert namesrv.errors == ""


@pytest.mark.slow
def test_controller_says_when_it_is_ready_and_remembers_after_a_kill(tmp_path: Path) -> None:
    arguments = ["controller", "--listen", "127.0.0.1:0", "--data", tmp_path / "state"]
    names = {"clusterName": "c", "brokerName": "b"}
    with server(*arguments, cwd=tmp_path) as controller:
        line = controller.ready()
        (address,) = ADDRESS.findall(line)
        assert "controller is ready" in line and str(tmp_path / "state") in line
        applied = {**names, "appliedBrokerId": "1", "registerCheckCode": "x"}
        assert ask(address, RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, applied)).code == 0
        controller.process.kill()
        controller.wait()
    with server(*arguments, cwd=tmp_path) as controller:
        (address,) = ADDRESS.findall(controller.ready())
        reply = ask(address, RemotingCommand.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, names))
        assert (reply.ext or {})["nextBrokerId"] == "2"
        assert controller.stop() == 0
        assert controller.errors == ""


def test_controller_needs_one_place_for_its_state(tmp_path: Path) -> None:
    assert "--data DIR or --etcd URL" in flaremq("controller").err
    both = flaremq("controller", "--data", tmp_path, "--etcd", "http://127.0.0.1:1")
    assert both.code == 2 and "exclude each other" in both.err


@pytest.mark.slow
def test_several_processes_are_one_cluster_with_stores_and_ports_of_their_own(tmp_path: Path) -> None:
    with server("namesrv", "--listen", "127.0.0.1:0", cwd=tmp_path) as namesrv:
        (name_server,) = ADDRESS.findall(namesrv.ready())
        port = free_ports(2)
        arguments = ["broker", "--processes", 2, "-n", name_server, "--data", tmp_path / "store"]
        arguments += ["--listen", f"127.0.0.1:{port}", "--set", "brokerName=b", *SMALL]
        with server(*arguments, cwd=tmp_path) as brokers:
            lines = [brokers.ready(), brokers.ready()]
            assert sorted(name for line in lines for name in ADDRESS.findall(line)) == sorted(
                [f"127.0.0.1:{port}", f"127.0.0.1:{port + 10}"]
            )
            assert broker_names(name_server) == ["b-0", "b-1"]
            assert [send(f"127.0.0.1:{port + 10 * number}") for number in (0, 1)] == [0, 0]
            assert brokers.stop() == 0
        for number in (0, 1):
            assert (tmp_path / "store" / f"b-{number}" / "commitlog").is_dir()
            assert not (tmp_path / "store" / f"b-{number}" / "abort").exists()


@pytest.mark.slow
def test_several_processes_on_any_free_port_log_as_they_are_told(tmp_path: Path) -> None:
    arguments = ["broker", "--processes", 2, "--data", tmp_path / "store", "--listen", "127.0.0.1:0"]
    with server(*arguments, "--log-level", "info", *SMALL, cwd=tmp_path) as brokers:
        lines = [brokers.ready(), brokers.ready()]
        addresses = {name for line in lines for name in ADDRESS.findall(line)}
        assert len(addresses) == 2 and "127.0.0.1:10" not in addresses
        assert brokers.stop() == 0
        assert brokers.errors.count("serves at 127.0.0.1") == 2


@pytest.mark.slow
def test_one_of_several_that_cannot_start_stops_the_others_with_a_code(tmp_path: Path) -> None:
    port = free_ports(2)
    with socket.create_server(("127.0.0.1", port + 10)):
        arguments = ["broker", "--processes", 2, "--data", tmp_path / "store", "--listen", f"127.0.0.1:{port}", *SMALL]
        with server(*arguments, cwd=tmp_path) as brokers:
            assert brokers.wait() == 3
            assert "cannot listen" in brokers.errors and "stopping the others" in brokers.errors


@pytest.mark.slow
def test_taken_port_and_taken_store_are_refused_in_one_sentence(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports()}"
    # Its port for slaves is none that the second one wants, which would have more to tell then.
    ours = ["--data", tmp_path / "store", "--listen", address, "--set", f"haListenPort={free_ports()}"]
    with server("broker", *ours, *SMALL, cwd=tmp_path) as first:
        first.ready()
        for arguments, word in (
            (["--data", tmp_path / "store", "--listen", "127.0.0.1:0"], "store"),
            (["--data", tmp_path / "other", "--listen", address], "cannot listen"),
        ):
            with server("broker", *arguments, *SMALL, cwd=tmp_path) as second:
                assert second.wait() == 3
                assert second.errors.startswith("flaremq: ") and second.errors.count("\n") == 1
                assert word in second.errors
        assert send(address) == 0, "the first goes on"
        assert first.stop() == 0


# Told and refused, without a process of their own


@pytest.mark.parametrize("command", ["broker", "namesrv"])
def test_print_options_shows_every_option_and_starts_nothing(command: str, tmp_path: Path) -> None:
    outcome = flaremq(command, "-p", "--set", "listenPort=12345")
    assert outcome.code == 0 and outcome.err == ""
    assert "listenPort" in outcome.out and "12345" in outcome.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["broker", "--set", "maxMessageSize=much"], ["maxMessageSize", "much"]),
        (["broker", "--set", "flushDiskType=SOMETIMES"], ["flushDiskType", "SOMETIMES"]),
        (["broker", "--set", "noSuchOption=1"], ["noSuchOption"]),
        (["broker", "--set", "novalue"], ["novalue"]),
        (["broker", "--listen", "nonsense"], ["nonsense"]),
        (["broker", "--listen", "127.0.0.1:99999"], ["127.0.0.1:99999"]),
        (["broker", "--listen", "0.0.0.0:0"], ["insecureBindEnable"]),
        (["broker", "-c", "absent.conf"], ["absent.conf"]),
        (["broker", "-n", "nowhere", "--set", "listenPort=0"], ["nowhere"]),
        (["broker", "--processes", "0"], ["--processes"]),
        (["broker", "--processes", "1000"], ["--processes"]),
        (["broker", "--processes", "2", "--set", "storePathCommitLog=logs"], ["storePathCommitLog", "--processes"]),
        (
            ["broker", "--processes", "2", "--set", "readOnlyCommitLogStorePaths=logs"],
            ["readOnlyCommitLogStorePaths", "--processes"],
        ),
        (["broker", "--log-level", "loud"], ["--log-level"]),
        (["broker", "--no-such-flag"], ["--no-such-flag"]),
        (["namesrv", "--listen", "nonsense"], ["nonsense"]),
        (["namesrv", "--set", "noSuchOption=1"], ["noSuchOption"]),
        (["up", "--listen", "nonsense"], ["nonsense"]),
        (["up", "--broker-listen", "0.0.0.0:1"], ["insecureBindEnable"]),
        (["up", "--set", "maxMessageSize=-1"], ["maxMessageSize"]),
    ],
    ids=lambda value: " ".join(map(str, value))[:60],
)
def test_bad_option_is_wrong_usage_in_one_sentence_that_names_it(
    arguments: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    outcome = flaremq(*arguments)
    assert outcome.code == 2, outcome
    assert outcome.out == "" and outcome.err.startswith("flaremq: ") and outcome.err.count("\n") == 1
    assert all(word in outcome.err for word in words), outcome.err
    assert list(tmp_path.iterdir()) == [], "nothing was created"
