"""Automatic failover among brokers of both kinds in one replica group, under either controller.

One story, both ways: A leads and B joins; what B never saw is on A when A is killed; B is elected; A comes back, is cut
to the common history and follows; then B is killed and A leads again. Nothing acknowledged is lost, and the logs are
equal byte for byte in the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import jvm
from tests.interop.replication import store_files
from tests.interop.replication.controller_group import ControllerGroup, why_not
from tests.interop.replication.group import FILE_SIZE, Member
from tests.interop.replication.talk import OK
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop

JAVA = "rocketmq-5.5.0"
_GET_EPOCHS = 1007
_LARGE = 500_000
_UNSEEN = 16 << 20  # more than the buffers of a connection to a frozen broker take
STORIES = [
    pytest.param(JAVA, "flaremq+flaremq", id="java-controller:ours+ours"),
    pytest.param(JAVA, f"flaremq+{JAVA}", id="java-controller:ours+java"),
    pytest.param(JAVA, f"{JAVA}+flaremq", id="java-controller:java+ours"),
    pytest.param("flaremq", f"flaremq+{JAVA}", id="our-controller:ours+java"),
    pytest.param("flaremq", f"{JAVA}+flaremq", id="our-controller:java+ours"),
]


class _Sender:
    """Sends numbered messages and remembers those that were acknowledged."""

    def __init__(self) -> None:
        self._count = 0
        self.acknowledged: list[bytes] = []

    def send(self, member: Member, count: int) -> None:
        for _ in range(count):
            body = self._body()
            reply = member.talk.send("orders", body, keys=body.decode())
            assert reply.code == OK, reply
            self.acknowledged.append(body)

    def send_without_waiting(self, member: Member, byte_count: int) -> list[bytes]:
        """Taken, but by nobody else: these may be lost. How each one begins."""
        bodies = [self._body() for _ in range(byte_count // _LARGE)]
        for body in bodies:
            assert member.talk.send("orders", body + bytes(_LARGE), wait=False).code == OK
        return bodies

    def _body(self) -> bytes:
        self._count += 1
        return f"<message {self._count:06d}>".encode()


class _Story:
    """Two brokers by number, started one by one so that the first is elected first."""

    def __init__(self, group: ControllerGroup) -> None:
        self.group = group

    def start(self, number: int) -> Member:
        member = self.group.members[number]
        member.start(self.group.relays[number].address)
        member.wait_ready()
        return member

    def wait_master(self, number: int) -> Member:
        """Until this broker takes messages."""
        member = self.group.members[number]

        def takes() -> bool:
            try:
                return member.talk.send("orders", b"are you the master").code == OK
            except OSError:
                return False

        self.group.wait(f"master {number + 1}", takes)
        return member

    def wait_in_sync(self, *ids: int) -> None:
        def is_so() -> bool:
            return {int(row["brokerId"]) for row in self.group.state().get("inSyncReplicas", ())} == set(ids)

        self.group.wait(f"brokers {ids} in sync", is_so)

    def epochs(self, number: int) -> list[tuple[int, int]]:
        """Empty while it does not answer: a broker of ours closes its ports while its log is cut."""
        try:
            rows = self.group.members[number].talk.ask(_GET_EPOCHS).json()["epochList"]
        except OSError:
            return []
        return [(int(row["epoch"]), int(row["startOffset"])) for row in rows]

    def status(self) -> list[tuple[str, bool]]:
        """Role and whether in sync of each broker, as ``flaremq cluster status`` tells it; the master first."""
        done = subprocess.run(
            [sys.executable, "-m", "flaremq", "cluster", "status", "-n", self.group.name_server, "-o", "json"],
            capture_output=True,
            check=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(jvm.PROJECT / "src")},
        )
        return [(row["role"], row["inSync"]) for row in json.loads(done.stdout)]

    def equal_logs(self) -> bytes:
        """Waits until both have the same, stops them and compares every byte of the logs; the bytes."""
        self.group.wait_caught_up()
        self.group.stop_brokers()
        first, second = (store_files.read_log(member.store, FILE_SIZE) for member in self.group.members)
        assert (first.begin, first.end) == (second.begin, second.end)
        assert first.data == second.data, "the logs differ"
        return first.data


@pytest.mark.parametrize(("controller", "kinds"), STORIES)
def test_a_group_survives_the_kill_of_either_master(controller: str, kinds: str, tmp_path: Path) -> None:
    require(why_not(kinds, controller))
    sender = _Sender()
    with ControllerGroup(kinds, tmp_path / "group", controller=controller) as group:
        story = _Story(group)
        group.start_name_server()
        group.start_controller()
        story.start(0)
        first = story.wait_master(0)
        sender.send(first, 20)
        second = story.start(1)
        story.wait_in_sync(1, 2)
        sender.send(first, 20)
        group.wait("status", lambda: story.status() == [("master", True), ("slave", True)])
        second.freeze()
        alone = sender.send_without_waiting(first, _UNSEEN)
        first.kill()
        second.thaw()
        story.wait_master(1)
        sender.send(second, 20)
        story.start(0)
        story.wait_in_sync(1, 2)
        sender.send(second, 20)
        group.wait("equal epochs", lambda: story.epochs(0) == story.epochs(1) != [])
        second.kill()
        story.wait_master(0)
        sender.send(first, 20)
        story.start(1)
        story.wait_in_sync(1, 2)
        sender.send(first, 20)
        assert story.epochs(0)[-1][0] >= 3
        log = story.equal_logs()
    assert [body for body in sender.acknowledged if body not in log] == []
    assert [body for body in alone if body not in log] != []
