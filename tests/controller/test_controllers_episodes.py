"""Episodes: controllers on etcd are killed, frozen and started again at random, etcd is frozen, and clients ask on.

Whatever was answered by whichever controller must fit one history: an epoch has one master, a set epoch one set, and an
answer that began after another one had ended never tells an older state. The name of the test has the seed;
``FLAREMQ_EPISODE_SECONDS`` makes an episode longer.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
from bisect import bisect_left
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from flaremq.errors import FlareMQError
from flaremq.protocol.bodies.controller import ElectMasterResponseBody, SyncStateSet
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.support.etcd_lab import needs_etcd, running_etcd
from tests.support.ports import free_ports
from tests.support.server_process import Server, server

pytestmark = [needs_etcd, pytest.mark.slow]
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
SECONDS = float(os.environ.get("FLAREMQ_EPISODE_SECONDS", "12"))
IDS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer says about the group."""

    began: float
    ended: float
    master_epoch: int
    master: int | None
    set_epoch: int
    members: frozenset[int]


class Episode:
    """Three controllers at fixed ports, clients that note every answer, and a hand that breaks things."""

    def __init__(self, stack: ExitStack, folder: Path, seed: int) -> None:
        self._stack, self._folder = stack, folder
        self.chance = random.Random(seed)
        self.etcd = stack.enter_context(running_etcd(folder))
        port = free_ports(3)
        self.addresses = [f"127.0.0.1:{port + 10 * number}" for number in range(3)]
        self.processes: dict[str, Server] = {}
        for address in self.addresses:
            self.start(address)
        self.told: list[Told] = []
        self.is_over = False

    def start(self, address: str) -> None:
        own = [f"controllerDLegerSelfId=n{self.addresses.index(address)}", "etcdLeaseSeconds=2"]
        settings = [part for text in own for part in ("--set", text)]
        arguments = ["controller", "--listen", address, "--etcd", self.etcd.url, *settings]
        self.processes[address] = self._stack.enter_context(server(*arguments, cwd=self._folder))

    async def ask(self, client: RemotingClient, address: str, code: int, body: bytes = b"", **ext: object) -> None:
        fields = {"clusterName": "c", "brokerName": "b", **{key: str(value) for key, value in ext.items()}}
        began = time.monotonic()
        reply = await client.request(address, RemotingCommand.request(code, fields, body), 1.0)
        if reply.code in (0, 2011):
            self._note(code, reply, began, time.monotonic())

    def _note(self, code: int, reply: RemotingCommand, began: float, ended: float) -> None:
        fields = reply.ext or {}
        if code == 1002:
            members = ElectMasterResponseBody.from_json(reply.body_bytes).sync_state_set
            numbers = int(str(fields["masterEpoch"])), int(str(fields["syncStateSetEpoch"]))
        elif code == 1004:
            body = SyncStateSet.from_json(reply.body_bytes)
            members, numbers = body.sync_state_set, (int(str(fields["masterEpoch"])), body.sync_state_set_epoch)
        else:
            return
        master = fields.get("masterBrokerId")
        self.told.append(
            Told(began, ended, numbers[0], None if master is None else int(str(master)), numbers[1], members)
        )

    async def beat(self, address: str) -> None:
        """The brokers' heartbeats to one controller."""
        while not self.is_over:
            client = RemotingClient()
            try:
                while not self.is_over:
                    for number in IDS:
                        beat = {"brokerId": number, "brokerAddr": f"127.0.0.1:{number}", "maxOffset": 5, "epoch": 1}
                        await self.ask(client, address, 904, **beat)
                    await asyncio.sleep(0.2)
            except FlareMQError:
                await asyncio.sleep(0.1)
            finally:
                await client.close()

    async def wonder(self, number: int) -> None:
        """A client that asks, elects and changes the set, at any controller."""
        chance = random.Random(number)
        while not self.is_over:
            client = RemotingClient()
            try:
                while not self.is_over:
                    await self._act(client, chance)
                    await asyncio.sleep(0.01)
            except FlareMQError:
                await asyncio.sleep(0.02)
            finally:
                await client.close()

    async def _act(self, client: RemotingClient, chance: random.Random) -> None:
        address = chance.choice(self.addresses)
        last = self.told[-1] if self.told else None
        if last is None or last.master is None or chance.random() < 0.5:
            await self.ask(client, address, 1004)
            if last is None or last.master is None:
                await self.ask(client, address, 1002, brokerId=chance.choice(IDS))
        elif chance.random() < 0.2:
            await self.ask(client, address, 1002, brokerId=chance.choice(IDS), designateElect="true")
        else:
            members = frozenset(chance.sample(IDS, chance.randrange(1, 4))) | {last.master}
            body = SyncStateSet(sync_state_set=members, sync_state_set_epoch=last.set_epoch).to_json()
            await self.ask(client, address, 1001, body, masterBrokerId=last.master, masterEpoch=last.master_epoch)

    async def register(self) -> None:
        for number in IDS:
            place = {"brokerId": number, "brokerAddress": f"127.0.0.1:{number}"}
            for code, ext in ((1013, {"appliedBrokerId": number, "registerCheckCode": f"c{number}"}), (1003, place)):
                while not await self._accepted(code, ext):
                    await asyncio.sleep(0.05)

    async def _accepted(self, code: int, ext: dict[str, object]) -> bool:
        client = RemotingClient()
        fields = {"clusterName": "c", "brokerName": "b", **{key: str(value) for key, value in ext.items()}}
        try:
            replies = [await client.request(each, RemotingCommand.request(code, fields)) for each in self.addresses]
            return any(reply.code == 0 for reply in replies)
        except FlareMQError:
            return False
        finally:
            await client.close()

    async def break_things(self) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(self.chance.uniform(0.2, 1.5))
            address = self.chance.choice(self.addresses)
            process = self.processes[address]
            kind = self.chance.choice(("kill", "freeze", "freeze", "etcd"))
            if kind == "kill":
                process.process.kill()
                await asyncio.to_thread(process.wait)
                self.start(address)
            elif kind == "freeze":
                process.process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(self.chance.uniform(0.5, 4.0))
                process.process.send_signal(signal.SIGCONT)
            else:
                self.etcd.send(signal.SIGSTOP)
                await asyncio.sleep(self.chance.uniform(0.1, 3.0))
                self.etcd.send(signal.SIGCONT)

    async def run(self) -> None:
        await self.register()
        tasks = [asyncio.create_task(self.beat(address)) for address in self.addresses]
        tasks += [asyncio.create_task(self.wonder(number)) for number in range(6)]
        await self.break_things()
        seen = len(self.told)
        async with asyncio.timeout(30):
            while len(self.told) < seen + 20:  # it goes on when all is quiet again
                await asyncio.sleep(0.05)
        self.is_over = True
        await asyncio.gather(*tasks)


def check(told: list[Told]) -> None:
    """One history, in the order of real time."""
    masters: dict[int, int] = {}
    sets: dict[int, frozenset[int]] = {}
    for each in told:
        if each.master is not None:
            assert masters.setdefault(each.master_epoch, each.master) == each.master, f"two masters: {each}"
        assert sets.setdefault(each.set_epoch, each.members) == each.members, f"two sets: {each}"
    newest: list[tuple[float, tuple[int, int]]] = []  # by end, the highest numbers told until then
    for each in sorted(told, key=lambda each: each.ended):
        numbers = each.master_epoch, each.set_epoch
        newest.append((each.ended, max(numbers, newest[-1][1]) if newest else numbers))
    ends = [end for end, _ in newest]
    for each in told:
        before = bisect_left(ends, each.began)
        if before:
            assert (each.master_epoch, each.set_epoch) >= newest[before - 1][1], f"an old state was told: {each}"


@pytest.mark.parametrize("seed", [1])
def test_answers_of_all_controllers_fit_one_history(tmp_path: Path, seed: int) -> None:
    with ExitStack() as stack:
        episode = Episode(stack, tmp_path, seed)
        asyncio.run(episode.run())
        for process in episode.processes.values():
            process.process.send_signal(signal.SIGCONT)
    check(episode.told)
    epochs = {each.master_epoch for each in episode.told}
    assert len(episode.told) > 100 and len(epochs) > 3, "nothing happened"
