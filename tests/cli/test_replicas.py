"""``flaremq up --replicas 3`` as its users run it: processes, the Python client, and SIGKILL."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from flaremq.cli.servers.replicas import ReplicaPlan, count_ready
from flaremq.client.producer.producer import Producer
from flaremq.client.producer.send_result import SendStatus
from flaremq.errors import FlareMQError
from flaremq.message.message import Message
from flaremq.protocol.bodies.controller import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.support.server_process import SMALL, server

COUNT = 3
NAMES = re.compile(r"name server (\S+), controller (\S+), .*master (\S+), slaves")


def _children(parent: int) -> dict[int, str]:
    """The command lines of the children of a process, by pid."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {int(pid): Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in found}


def _child_at(parent: int, address: str) -> int:
    port = address.rpartition(":")[2]
    return next(pid for pid, line in _children(parent).items() if f"listenPort={port} " in line)


async def _until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.02)


async def _until_in_sync(controller: str, epoch: int) -> None:
    client = RemotingClient()
    request = RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=b'["broker-a"]')
    try:
        deadline = time.monotonic() + 60
        while True:
            reply = await client.request(controller, request)
            group = BrokerReplicasInfo.from_json(reply.body_bytes).replicas_info_table["broker-a"]
            if len(group.in_sync_replicas) == COUNT and group.master_epoch >= epoch:
                return
            assert time.monotonic() < deadline, f"not in sync again: {group}"
            await asyncio.sleep(0.05)
    finally:
        await client.close()


class _Load:
    """Producers that never stop, and what they were told is safe."""

    def __init__(self, name_server: str) -> None:
        self._producer = Producer(name_server)
        self._tasks: list[asyncio.Task[None]] = []
        self.acknowledged: list[bytes] = []

    async def start(self) -> None:
        await self._producer.start()
        self._tasks = [asyncio.create_task(self._produce(number)) for number in range(8)]

    async def _produce(self, number: int) -> None:
        for sequence in count():
            body = f"key-{number}-{sequence:06d}-end".encode()
            try:
                result = await self._producer.send(Message("orders", body, keys=body.decode()))
            except FlareMQError:
                continue  # not acknowledged: it may be there or not
            if result.status is SendStatus.SEND_OK:
                self.acknowledged.append(body)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._producer.close()


def _logs(data: Path) -> list[bytes]:
    """The log files of the replicas, joined."""
    folders = [data / f"replica-{number}" / "commitlog" for number in range(1, COUNT + 1)]
    return [b"".join(path.read_bytes() for path in sorted(folder.iterdir())) for folder in folders]


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_master_is_killed_and_the_replicas_are_equal_afterwards(
    tmp_path: Path,
) -> None:
    arguments = ["up", "--replicas", COUNT, "--data", tmp_path / "data"]
    arguments += ["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]
    with server(*arguments, *SMALL, cwd=tmp_path) as up:
        names = NAMES.search(up.ready())
        assert names is not None
        name_server, controller, master = names.groups()

        async def scenario() -> _Load:
            load = _Load(name_server)
            await load.start()
            await _until(lambda: len(load.acknowledged) >= 100, "traffic")
            parent = up.process.pid
            victim = _child_at(parent, master)
            before = len(load.acknowledged)
            os.kill(victim, signal.SIGKILL)
            killed_at = time.monotonic()
            await _until(lambda: len(load.acknowledged) > before + 16, "sends after the kill")
            print(f"sends are acknowledged again {time.monotonic() - killed_at:.3f} s after the kill")
            await _until(lambda: len(_children(parent)) == COUNT and victim not in _children(parent), "a new child")
            await _until_in_sync(controller, 2)
            await load.stop()
            await _until(lambda: len(set(_logs(tmp_path / "data"))) == 1, "equal logs")
            return load

        load = asyncio.run(scenario())
        assert up.stop() == 0
    logs = _logs(tmp_path / "data")
    assert logs[0] == logs[1] == logs[2]
    assert [body for body in load.acknowledged if body not in logs[0]] == []


def test_a_folder_of_replicas_is_not_started_as_a_lone_broker(tmp_path: Path) -> None:
    (tmp_path / "data" / "replica-1").mkdir(parents=True)
    with server("up", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", cwd=tmp_path) as up:
        assert up.wait() != 0
        assert "--replicas" in up.errors


@pytest.mark.parametrize("setting", ["storePathCommitLog=/tmp/one-log-for-all", "haListenPort=10912"])
def test_replicas_share_neither_log_nor_port(tmp_path: Path, setting: str) -> None:
    arguments = ["up", "--replicas", 2, "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--set", setting]
    with server(*arguments, cwd=tmp_path) as up:
        assert up.wait() != 0
        assert f"{setting} cannot be used with --replicas" in up.errors


def test_no_secret_is_in_the_command_lines_of_replicas() -> None:
    settings = {
        "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"planted"}',
        "initAuthenticationUser": "env:ROOT",
        "brokerName": "b",
    }
    plan = ReplicaPlan(
        addresses=(("127.0.0.1", 1),),
        data="data",
        controller="127.0.0.1:2",
        settings=settings,
        config_file=None,
        log_arguments=lambda child: ["--log-level", "info"],
    )
    command = plan.command(0)
    assert "planted" not in " ".join(command)
    assert "initAuthenticationUser=env:ROOT" in command and "brokerName=b" in command
    (name,) = plan.environment
    assert f"innerClientAuthenticationCredentials=env:{name}" in command
    assert plan.environment[name] == settings["innerClientAuthenticationCredentials"]


@pytest.mark.parametrize(
    ("master", "alive", "ready"),
    [("a", "ab", 2), ("a", "a", 1), ("b", "a", 0), (None, "ab", 0), (None, "", 0), ("a", "", 0)],
)
def test_replicas_that_a_controller_remembers_are_not_ready_before_they_are_back(
    master: str | None, alive: str, ready: int
) -> None:
    members = tuple(ReplicaIdentity(broker_address=name, alive=name in alive) for name in "ab")
    assert count_ready(ReplicasInfo(master_address=master, in_sync_replicas=members)) == ready
