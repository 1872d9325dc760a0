"""Controller processes on one etcd: killed, frozen and cut off, there is never more than one that decides."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flaremq.errors import FlareMQError
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.support.etcd_lab import Etcd, needs_etcd, running_etcd
from tests.support.server_process import Server, server

pytestmark = [needs_etcd, pytest.mark.slow]
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
LEASE_SECONDS = 2
NOT_LEADER = 2007


class Controllers:
    """Processes by their addresses, and a client of all of them."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.etcd: Etcd = stack.enter_context(running_etcd(folder))
        self.processes: dict[str, Server] = {}
        started = []
        for number in range(2):
            arguments = ["controller", "--listen", "127.0.0.1:0", "--etcd", self.etcd.url]
            settings = [f"controllerDLegerSelfId=n{number}", f"etcdLeaseSeconds={LEASE_SECONDS}"]
            started.append(
                stack.enter_context(
                    server(*arguments, *(part for text in settings for part in ("--set", text)), cwd=folder)
                )
            )
        for process in started:
            (address, *_) = ADDRESS.findall(process.ready())
            self.processes[address] = process
        self.next_id = 1

    async def ask(self, address: str, code: int, **ext: object) -> RemotingCommand:
        client = RemotingClient()
        try:
            fields = {"clusterName": "c", "brokerName": "b", **{key: str(value) for key, value in ext.items()}}
            return await client.request(address, RemotingCommand.request(code, fields), 5.0)
        finally:
            await client.close()

    async def leader(self, *, other_than: str = "") -> str:
        """Wait until one of those that answer says it leads; it and nobody else does."""
        while True:
            leading = []
            for address in self.processes:
                if address != other_than:
                    try:
                        reply = await self.ask(address, 1005)
                    except FlareMQError:
                        continue
                    if (reply.ext or {}).get("isLeader") == "true":
                        leading.append(address)
            assert len(leading) < 2
            if leading:
                return leading[0]
            await asyncio.sleep(0.05)

    async def take_id(self, address: str) -> int:
        """Have the next broker id given out; the code of the answer."""
        reply = await self.ask(address, 1013, appliedBrokerId=self.next_id, registerCheckCode=f"c{self.next_id}")
        if reply.code == 0:
            self.next_id += 1
        return reply.code

    async def known_next_id(self, address: str) -> int:
        reply = await self.ask(address, 1012)
        assert reply.code == 0, reply
        return int((reply.ext or {})["nextBrokerId"] or 0)


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    with ExitStack() as stack:
        yield Controllers(stack, tmp_path)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await scenario()

    asyncio.run(bounded())


def test_follower_refuses_and_names_the_leader_and_takes_over_after_a_kill(controllers: Controllers) -> None:
    async def scenario() -> None:
        first = await controllers.leader()
        (second,) = set(controllers.processes) - {first}
        assert await controllers.take_id(first) == 0
        assert await controllers.take_id(second) == NOT_LEADER
        for code in (1002, 1004, 1006, 1012):
            assert (await controllers.ask(second, code, brokerId=1)).code == NOT_LEADER
        metadata = (await controllers.ask(second, 1005)).ext or {}
        assert (metadata["isLeader"], metadata["controllerLeaderAddress"]) == ("false", first)
        while len(str(((await controllers.ask(second, 1005)).ext or {})["peers"]).split(";")) != 3:
            await asyncio.sleep(0.05)
        killed = controllers.processes[first]
        killed.process.kill()
        await asyncio.to_thread(killed.wait)
        assert await controllers.leader() == second
        assert await controllers.known_next_id(second) == 2
        assert await controllers.take_id(second) == 0

    run(scenario)


def test_leader_that_was_frozen_past_its_lease_does_not_answer_as_one(controllers: Controllers) -> None:
    async def scenario() -> None:
        first = await controllers.leader()
        assert await controllers.take_id(first) == 0
        frozen = controllers.processes[first].process
        frozen.send_signal(signal.SIGSTOP)
        # Asked while it sleeps: the questions lie in its sockets, and are answered when it wakes.
        read = asyncio.create_task(RemotingProbe(first).ask(1004))
        write = asyncio.create_task(RemotingProbe(first).ask(1013))
        second = await controllers.leader(other_than=first)
        assert await controllers.take_id(second) == 0
        frozen.send_signal(signal.SIGCONT)
        assert (await read).code == NOT_LEADER
        assert (await write).code == NOT_LEADER
        assert await controllers.take_id(first) == NOT_LEADER
        assert await controllers.leader() == second
        assert await controllers.known_next_id(second) == 3

    run(scenario)


class RemotingProbe:
    """One question over a connection of its own, with patience."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def ask(self, code: int) -> RemotingCommand:
        client = RemotingClient()
        fields = {"clusterName": "c", "brokerName": "b", "appliedBrokerId": "2", "registerCheckCode": "frozen"}
        try:
            return await client.request(self._address, RemotingCommand.request(code, fields), 60.0)
        finally:
            await client.close()


def test_etcd_that_goes_away_stops_all_answers_and_comes_back_with_the_state(controllers: Controllers) -> None:
    async def scenario() -> None:
        first = await controllers.leader()
        assert await controllers.take_id(first) == 0
        controllers.etcd.stop()
        while (await controllers.ask(first, 1012)).code == 0:
            await asyncio.sleep(0.05)
        for address in controllers.processes:
            assert await controllers.take_id(address) == NOT_LEADER
            assert ((await controllers.ask(address, 1005)).ext or {})["isLeader"] == "false"
        await asyncio.to_thread(controllers.etcd.start)
        leader = await controllers.leader()
        assert await controllers.known_next_id(leader) == 2
        assert await controllers.take_id(leader) == 0

    run(scenario)


def test_leader_that_stops_cleanly_hands_over_without_waiting_for_the_lease(controllers: Controllers) -> None:
    async def scenario() -> None:
        first = await controllers.leader()
        assert await controllers.take_id(first) == 0
        stopping = asyncio.create_task(asyncio.to_thread(controllers.processes[first].stop))
        second = await controllers.leader(other_than=first)
        assert await stopping == 0
        assert await controllers.known_next_id(second) == 2

    run(scenario)
