"""A group under a controller on a bench: controller, name server and brokers in the test's own event loop."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.cli.servers.child import free_broker_ports
from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from flaremq.errors import StoreIOError, UnavailableError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.send import SendMessageRequestHeader
from flaremq.remoting.client import RemotingClient

BORN = 1_699_999_999_000
NAME = "broker-a"


async def until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Wait for something that will happen on its own."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain: {what}") from None


class FailoverLab:
    """``async with`` starts controller and name server; brokers are started and crashed by number, from 0."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        self.settings = {
            "mappedFileSizeCommitLog": "1048576",
            "mappedFileSizeConsumeQueue": "60000",
            "maxHashSlotNum": "2000",
            "maxIndexNum": "8000",
            "brokerHeartbeatInterval": "200",
            "syncBrokerMetadataPeriod": "200",
            "controllerHeartBeatTimeoutMills": "2000",
            "enableControllerMode": "true",
            **settings,
        }
        self.brokers: dict[int, BrokerService] = {}
        self._ports: dict[int, int] = {}
        self._exit = AsyncExitStack()
        self.client = RemotingClient()

    async def __aenter__(self) -> Self:
        self.name_server = NamesrvService(NamesrvOptions.from_properties({"listenPort": "0"}))
        await self.name_server.start()
        self._exit.push_async_callback(self.name_server.stop)
        await self.start_controller()
        self._exit.push_async_callback(self.client.close)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for broker in list(self.brokers.values()):
            await broker.stop()
        await self.controller.stop()
        await self._exit.aclose()

    async def start_controller(self) -> None:
        port = self._ports.setdefault(-1, free_broker_ports(1)[0])
        properties = {"listenPort": str(port), "controllerStorePath": str(self.path / "controller")}
        self.controller = ControllerService(ControllerOptions.load(None, properties))
        await self.controller.start()

    @property
    def controller_addresses(self) -> str:
        return self.controller.address

    def options_of(self, number: int) -> dict[str, str]:
        port = self._ports.setdefault(number, free_broker_ports(1)[0])
        return {
            **self.settings,
            "listenPort": str(port),
            "namesrvAddr": self.name_server.address,
            "controllerAddr": self.controller_addresses,
        }

    async def start(self, number: int) -> BrokerService:
        """Start a broker; returns when it has a role."""
        broker = BrokerService(self.path / f"store-{number}", *load_options(None, self.options_of(number)))
        await broker.start()
        self.brokers[number] = broker
        assert broker.controller_mode is not None
        await asyncio.wait_for(broker.controller_mode.has_role.wait(), 20)
        return broker

    async def start_all(self, count: int) -> BrokerService:
        """Start some brokers and wait until all are in sync; the master."""
        for number in range(count):
            await self.start(number)
        await self.until_in_sync(count)
        return self.master()

    async def stop(self, number: int) -> None:
        await self.brokers.pop(number).stop()

    @staticmethod
    def keep_set(master: BrokerService) -> None:
        """Let a master propose no change of the SyncStateSet, whoever is gone."""
        setattr(master.ha.replicas, "proposal", lambda *_, **__: None)  # noqa: B010 - a method, replaced on purpose

    @staticmethod
    def break_disk(broker: BrokerService) -> None:
        """Let every sync from now on fail."""

        def fail() -> int:
            raise StoreIOError("sync", broker.path, OSError(errno.EIO, "the disk is gone"))

        setattr(broker.store_loop.driver, "sync", fail)  # noqa: B010 - as above

    @staticmethod
    def fail_to_open_once(broker: BrokerService) -> None:
        """Let the next ``reopen`` find the port taken, say."""
        start = getattr(broker, "_start")  # noqa: B009 - the only place where opening can be made to fail

        async def fail(cut_at: int | None = None) -> None:
            setattr(broker, "_start", start)  # noqa: B010
            raise UnavailableError("the port is taken")

        setattr(broker, "_start", fail)  # noqa: B010

    def master(self) -> BrokerService:
        found = [broker for broker in self.brokers.values() if broker.role.is_master]
        assert len(found) == 1, f"{len(found)} masters"
        return found[0]

    def number_of(self, broker: BrokerService) -> int:
        return next(number for number, one in self.brokers.items() if one is broker)

    async def until_in_sync(self, count: int) -> None:
        await until(lambda: self._in_sync() == count, f"{count} brokers in sync")

    def _in_sync(self) -> int:
        masters = [broker for broker in self.brokers.values() if broker.role.is_master]
        if len(masters) != 1:
            return 0
        state = masters[0].ha.replicas.sync_state
        return 0 if state is None or state.is_changing else len(state.members)

    async def send(self, broker: BrokerService, body: bytes, *, properties: str = "") -> RemotingCommand:
        """One message to one broker; its answer, whatever the code."""
        header = SendMessageRequestHeader(
            producer_group="p",
            topic="T",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=BORN,
            flag=0,
            properties=properties or f"KEYS\x01{body.decode()}",
            reconsume_times=0,
            unit_mode=False,
            batch=False,
        )
        request = RemotingCommand.request(RequestCode.SEND_MESSAGE, header.encode(), body)
        return await self.client.request(broker.address, request, 10.0)

    def log_bytes(self, number: int) -> bytes:
        """The commit log of a broker, up to its end."""
        broker = self.brokers[number]
        folder = broker.path + "/commitlog"
        end = broker.store_loop.driver.appended
        data = b"".join(Path(folder, name).read_bytes() for name in sorted(os.listdir(folder)))
        return data[:end]

    async def until_equal(self, count: int) -> None:
        """Wait until the logs are equally long, and compare them byte for byte."""
        ends = [self.brokers[number].store_loop for number in self.brokers]
        assert len(ends) == count
        await until(
            lambda: len({broker.store_loop.driver.appended for broker in self.brokers.values()}) == 1, "equal log ends"
        )
        assert len({self.log_bytes(number) for number in self.brokers}) == 1, "the logs differ"
