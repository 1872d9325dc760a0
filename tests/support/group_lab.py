"""A group of brokers on a bench: a name server, a master and its slaves in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.remoting.client import RemotingClient
from tests.support.broker_lab import BrokerLab, until

SMALL = {
    "mappedFileSizeCommitLog": "1048576",
    "maxMessageSize": "500000",
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "diskMaxUsedSpaceRatio": "95",
    "grpcServerPort": "-1",
}


class Member(BrokerLab):
    """One broker of the group, spoken to like any broker."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = {name: str(value) for name, value in settings.items()}
        self.client = RemotingClient()
        self._service: BrokerService | None = None

    @property
    def broker(self) -> BrokerService:
        assert self._service is not None, "the broker is not running"
        return self._service

    async def start(self) -> None:
        service = BrokerService(self.folder, *load_options(None, self.settings))
        await service.start()
        self._service = service
        # where it is when it comes back
        self.settings |= {"listenPort": str(service.port), "haListenPort": str(service.ha.server.port)}

    async def stop(self) -> None:
        if self._service is not None:
            service, self._service = self._service, None
            await service.stop()

    @property
    def log_end(self) -> int:
        return self.broker.store.max_physical_offset


class GroupLab:
    """A name server and whoever joins."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.members: list[Member] = []
        kv_path = str(folder / "kvConfig.json")
        self.namesrv = NamesrvService(NamesrvOptions.from_properties({"listenPort": "0", "kvConfigPath": kv_path}))

    async def __aenter__(self) -> Self:
        await self.namesrv.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for member in reversed(self.members):
            await member.client.close()
            await member.stop()
        await self.namesrv.stop()

    async def join(self, name: str, **settings: Any) -> Member:
        """Start a broker; ``name`` is its folder's, all of them have the same brokerName."""
        base = SMALL | {"listenPort": 0, "namesrvAddr": self.namesrv.address, "brokerName": "broker-a"}
        member = Member(self._folder / name, base | settings)
        self.members.append(member)
        await member.start()
        return member

    async def master(self, **settings: Any) -> Member:
        return await self.join("master", **settings)

    async def slave(self, number: int = 1, **settings: Any) -> Member:
        return await self.join(f"slave-{number}", brokerRole="SLAVE", brokerId=number, **settings)


async def caught_up(slave: Member, master: Member) -> None:
    """Wait until a slave has and shows all that its master has."""
    end = master.log_end
    await until(lambda: slave.broker.store.dispatched_offset >= end, f"the slave shows {end} bytes")


def run(folder: Path, scenario: Callable[[GroupLab], Awaitable[None]]) -> None:
    async def main() -> None:
        async with GroupLab(folder) as lab:
            await asyncio.wait_for(scenario(lab), 60)

    asyncio.run(main())


class FakeSlave:
    """A slave that only talks: it keeps no log, and acknowledges what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.acknowledges = True
        self.received = 0  # offset behind the last byte that came
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def join(cls, master: Member, *, acknowledges: bool = True) -> FakeSlave:
        """Connect, and ask for what comes from now on."""
        slave = cls(*await asyncio.open_connection("127.0.0.1", master.broker.ha.server.port))
        slave.acknowledges = acknowledges
        slave.received = master.log_end
        slave.report(slave.received or 0)
        await until(lambda: len(master.broker.ha.server.slaves) > 0, "the slave has reported")
        return slave

    def report(self, offset: int) -> None:
        self._writer.write(offset.to_bytes(8, "big", signed=True))

    def acknowledge(self) -> None:
        """Acknowledge everything, now and from now on."""
        self.acknowledges = True
        self.report(self.received)

    async def leave(self) -> None:
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), self._task, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            header = await self._reader.readexactly(12)
            offset, size = int.from_bytes(header[:8], "big", signed=True), int.from_bytes(header[8:], "big")
            await self._reader.readexactly(size)
            if size:
                self.received = offset + size
                if self.acknowledges:
                    self.report(self.received)
