"""Options of running servers: which are live, what differs, and that changes outlast the server."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from flaremq.testing import EphemeralBroker
from tests.cli.test_servers import ADDRESS
from tests.support.admin_cli import Shell, until_registered
from tests.support.cli import flaremq
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server


@pytest.fixture(scope="module")
def shell(cluster: EphemeralBroker) -> Shell:
    return Shell(cluster)


def test_live_options_are_listed_with_what_they_allow(shell: Shell) -> None:
    rows = {row["option"]: row for row in shell.rows("config", "get", "--live")}
    assert rows["fileReservedTime"]["allowed"].startswith("a whole number") and rows["fileReservedTime"]["meaning"]
    assert {"brokerName", "storePathRootDir", "aclEnable"}.isdisjoint(rows)
    of_name_server = {row["option"] for row in shell.rows("config", "get", "--live", "--of-name-server")}
    assert "orderMessageEnable" in of_name_server and "kvConfigPath" not in of_name_server


def test_an_unknown_option_is_answered_with_the_nearest(shell: Shell) -> None:
    for line in (("set", "fileReservdTime=48"), ("get", "fileReservdTime")):
        done = shell.run("config", *line)
        assert done.code != 0 and "did you mean fileReservedTime?" in done.err


def test_a_value_that_is_not_allowed_is_answered_in_plain_words(shell: Shell) -> None:
    done = shell.run("config", "set", "autoCreateTopicEnable=maybe", "--yes")
    assert done.code != 0 and "'maybe' is not allowed: true or false" in done.err
    assert "InvalidArgumentError" not in done.err


def test_what_differs_from_a_file_is_listed(shell: Shell, tmp_path: Path) -> None:
    shell.ok("config", "set", "filterExpressionBytesMax=5000")
    done = shell.run("config", "diff", "-o", "jsonl")
    assert done.code == 1 and '"option":"filterExpressionBytesMax","value":"5000"' in done.out
    file = tmp_path / "broker.conf"
    file.write_text("filterExpressionBytesMax = 5000\nflushDiskType=SYNC_FLUSH\n")
    done = shell.run("config", "diff", "-c", file, "-o", "jsonl")
    assert "filterExpressionBytesMax" not in done.out
    assert '"option":"flushDiskType","value":"ASYNC_FLUSH","file":"SYNC_FLUSH"' in done.out
    everything = {row["option"]: row["value"] for row in shell.rows("config", "get")}
    secrets = ("initAuthenticationUser", "innerClientAuthenticationCredentials")
    file.write_text("".join(f"{name}={value}\n" for name, value in everything.items() if name not in secrets))
    assert shell.run("config", "diff", "-c", file).code == 0


def test_what_can_cost_messages_is_asked_for_at_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.StringIO("n\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)
    done = shell.run("config", "set", "fileReservedTime=1")
    assert done.code == 1 and "messages older than that many hours are deleted" in done.err
    assert shell.rows("config", "get", "fileReservedTime")[0]["value"] != "1"
    assert shell.run("config", "set", "fileReservedTime=71", "--yes").code == 0
    assert shell.run("config", "set", "filterExpressionBytesMax=4001").code == 0, (
        "nobody is asked for what costs nothing"
    )


def config(name_server: str, *line: object) -> str:
    done = flaremq("config", *line, "-n", name_server)
    assert (done.code, done.err) == (0, ""), done
    return done.out


@pytest.mark.slow
def test_changes_outlast_a_server_without_a_file(tmp_path: Path) -> None:
    arguments = ["up", "--data", tmp_path / "data", "--listen", f"127.0.0.1:{free_ports()}", *SMALL]
    arguments += ["--broker-listen", "127.0.0.1:0"]
    with server(*arguments, cwd=tmp_path) as up:
        name_server, _ = ADDRESS.findall(up.ready())
        until_registered(name_server)
        config(name_server, "set", "fileReservedTime=48", "maxMessageSize=800000")
        config(name_server, "set", "orderMessageEnable=true", "--of-name-server")
        up.process.kill()
        up.wait()
    with server(*arguments, cwd=tmp_path) as up:
        name_server, _ = ADDRESS.findall(up.ready())
        until_registered(name_server)
        assert '"48"' in config(name_server, "get", "fileReservedTime")
        assert '"900000"' in config(name_server, "get", "maxMessageSize"), "the command line counts more"
        assert '"true"' in config(name_server, "get", "orderMessageEnable", "--of-name-server")
        assert up.stop() == 0


@pytest.mark.slow
def test_changes_are_written_into_the_file_that_was_given(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("# ours\nfileReservedTime = 72  \nlistenPort=0\n")
    with server("namesrv", "--listen", "127.0.0.1:0", cwd=tmp_path) as namesrv:
        (name_server,) = ADDRESS.findall(namesrv.ready())
        arguments = ["broker", "-n", name_server, "-c", file, "--data", tmp_path / "store", *SMALL]
        with server(*arguments, cwd=tmp_path) as broker:
            broker.ready()
            until_registered(name_server)
            config(name_server, "set", "fileReservedTime=48", "deleteWhen=05")
            assert broker.stop() == 0
        assert file.read_text() == "# ours\nfileReservedTime = 48\nlistenPort=0\ndeleteWhen=05\n"
        assert not (tmp_path / "store" / "config" / "broker.conf").exists()


@pytest.mark.slow
def test_brokers_that_share_a_file_keep_changes_apart(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b\nlistenPort=0\n")
    with server("namesrv", "--listen", "127.0.0.1:0", cwd=tmp_path) as namesrv:
        (name_server,) = ADDRESS.findall(namesrv.ready())
        arguments = ["broker", "--processes", 2, "-n", name_server, "-c", file, "--data", tmp_path / "store", *SMALL]
        with server(*arguments, cwd=tmp_path) as brokers:
            brokers.ready()
            brokers.ready()
            until_registered(name_server, 2)
            config(name_server, "set", "fileReservedTime=48", "--broker", "b-1")
            assert brokers.stop() == 0
        assert file.read_text() == "brokerName=b\nlistenPort=0\n"
        with server(*arguments, cwd=tmp_path) as brokers:
            brokers.ready()
            brokers.ready()
            until_registered(name_server, 2)
            assert '"72"' in config(name_server, "get", "fileReservedTime", "--broker", "b-0")
            assert '"48"' in config(name_server, "get", "fileReservedTime", "--broker", "b-1")
            assert brokers.stop() == 0
