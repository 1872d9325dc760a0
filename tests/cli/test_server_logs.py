"""What a server writes into its log by itself, and where."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.test_servers import ADDRESS
from tests.support.admin_cli import until_registered
from tests.support.cli import flaremq
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server


def places() -> list[str]:
    return ["--broker-listen", "127.0.0.1:0", "--listen", f"127.0.0.1:{free_ports()}", *SMALL]


pytestmark = pytest.mark.slow


def test_the_life_of_a_store_is_in_the_log_by_default(tmp_path: Path) -> None:
    log, data = tmp_path / "server.log", tmp_path / "data"
    line = [
        "up",
        "--data",
        data,
        "--log-file",
        log,
        "--log-level",
        "info",
        *places(),
    ]
    with server(*line, cwd=tmp_path) as up:
        up.ready()
        assert up.stop() == 0
        assert up.errors == "", "the log is in the file"
    with server(*line, cwd=tmp_path) as up:
        name_server, _ = ADDRESS.findall(up.ready())
        until_registered(name_server)
        assert flaremq("message", "send", "T", "body", "-n", name_server).code == 0
        assert flaremq("topic", "create", "made", "--queues", "3", "-n", name_server).code == 0
        assert flaremq("config", "set", "fileReservedTime=48", "-n", name_server).code == 0
        up.process.kill()
        up.wait()
    with server(*line, cwd=tmp_path) as up:
        up.ready()
        assert up.stop() == 0
    text = log.read_text()
    wanted = [
        rf"INFO .*{data} is open; it is empty, its log ends at 0",
        r"INFO .*stopping on SIGTERM",
        rf"INFO .*{data} is closed cleanly",
        rf"INFO .*{data} is open; it is empty",
        r"INFO .*127\.0\.0\.1:\d+ sets topic {.*'readQueueNums': 3.*'topicName': 'made'",
        r"WARNING .*127\.0\.0\.1:\d+ changes options: fileReservedTime='48' \(was '72'\)",
        rf"WARNING .*{data} was not closed cleanly; recovery read the log from",
        rf"INFO .*{data} is closed cleanly",
    ]
    assert re.search(".*".join(wanted), text, re.DOTALL), text


def test_commands_leave_no_line_each(tmp_path: Path) -> None:
    with server(
        "up",
        "--data",
        tmp_path / "data",
        "--log-level",
        "info",
        *places(),
        cwd=tmp_path,
    ) as up:
        name_server, _ = ADDRESS.findall(up.ready())
        until_registered(name_server)
        before = up.errors.count("\n")
        for command in (
            ("topic", "list"),
            ("message", "send", "Known", "body"),
            ("message", "print", "Known"),
            ("message", "query", "Known", "--key", "k"),
            ("message", "tail", "Known", "--from", "earliest", "--max", 1),
            ("group", "list"),
            ("group", "progress"),
            ("cluster", "status"),
            ("config", "get"),
        ):
            flaremq(*command, "-n", name_server)
        up.stop()
        lines = up.errors.splitlines()[before:]
        assert [line for line in lines if "Known" not in line and "stop" not in line and "closed" not in line] == [
            line for line in lines if "unregistered" in line
        ]


def test_a_log_of_json_is_json_from_the_first_line_to_the_last(tmp_path: Path) -> None:
    line = [
        "up",
        "--data",
        tmp_path / "data",
        "--log-format",
        "json",
        "--log-level",
        "info",
        *places(),
    ]
    with server(*line, cwd=tmp_path) as up:
        up.ready()
        assert up.stop() == 0
        records = [json.loads(text) for text in up.errors.splitlines()]
    assert {"time", "level", "logger", "message"} <= records[0].keys()
    assert any("is closed cleanly" in record["message"] for record in records)


def test_a_log_file_is_rotated(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"x" * (1 << 20))
    line = [
        "up",
        "--data",
        tmp_path / "data",
        "--log-file",
        log,
        "--log-file-size",
        1,
        "--log-file-count",
        1,
        *places(),
    ]
    with server(*line, "--log-level", "info", cwd=tmp_path) as up:
        up.ready()
        assert up.stop() == 0
    assert (tmp_path / "server.log.1").stat().st_size == 1 << 20
    assert "is closed cleanly" in log.read_text()


def test_several_brokers_have_a_log_file_each(tmp_path: Path) -> None:
    log = tmp_path / "b.log"
    line = ["broker", "--processes", 2, "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--log-file", log]
    with server(*line, "--set", "brokerName=b", "--log-level", "info", *SMALL, cwd=tmp_path) as brokers:
        brokers.ready()
        brokers.ready()
        assert brokers.stop() == 0
    assert all("serves at" in (tmp_path / f"b-b-{number}.log").read_text() for number in (0, 1))


def test_a_log_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    done = flaremq("namesrv", "--log-file", tmp_path / "absent" / "x.log")
    assert done.code == 2 and "absent/x.log" in done.err


def test_the_level_of_a_running_broker_can_be_changed_and_is_kept(tmp_path: Path) -> None:
    line = ["up", "--data", tmp_path / "data", *places()]
    with server(*line, cwd=tmp_path) as up:
        name_server, _ = ADDRESS.findall(up.ready())
        until_registered(name_server)
        assert flaremq("config", "set", "logLevel=loud", "-n", name_server).code == 3
        assert flaremq("config", "set", "logLevel=info", "-n", name_server).code == 0
        assert up.stop() == 0
        assert "is closed cleanly" in up.errors
    with server(*line, cwd=tmp_path) as up:
        up.ready()
        assert up.stop() == 0
        assert "is open; it is empty" in up.errors
