"""EphemeralBroker: name server and broker for the length of a test."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.client.blocking import LoopThread
from flaremq.clock import Clock, ManualClock
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.remoting.address import format_address

_T = TypeVar("_T")
_NEVER = str(2**31 - 1)
_START_SECONDS = 60.0
_TURNS = 50  # of the event loop: a request over loopback takes about ten
_LOOKS_MAX = 5_000  # a client that never stops asking does not stop time


def ephemeral_broker(*, clock: Clock | None = None, path: str | None = None, **options: object) -> EphemeralBroker:
    """A broker to use with ``with`` or ``async with``.

    ``options`` are RocketMQ's names (``enablePropertyFilter=True``, ``flushDiskType="ASYNC_FLUSH"``). Without a clock
    it gets a manual one; without a path its store is in a temporary folder and gone afterwards.
    """
    return EphemeralBroker(clock or ManualClock(), path, {name: _text(value) for name, value in options.items()})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class EphemeralBroker:
    """A name server and a broker of a test. ``name_server`` is what clients connect to."""

    def __init__(self, clock: Clock, path: str | None, options: dict[str, str]) -> None:
        self.clock = clock
        self._path = path
        self._options = options
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._namesrv: NamesrvService | None = None
        self._broker: BrokerService | None = None
        self._thread: LoopThread | None = None

    @property
    def name_server(self) -> str:
        """Address for producers, consumers and admins."""
        assert self._namesrv is not None, "the broker runs inside `with` only"
        return self._namesrv.address

    @property
    def broker(self) -> BrokerService:
        """The broker itself, for tests that look inside."""
        assert self._broker is not None, "the broker runs inside `with` only"
        return self._broker

    @property
    def address(self) -> str:
        """The broker's own address."""
        return self.broker.address

    @property
    def grpc_address(self) -> str:
        """Where clients of RocketMQ 5 come to: for ``ephemeral_broker(grpcServerPort=0)``."""
        assert self.broker.grpc_door is not None, "grpcServerPort=0 opens the port of gRPC"
        return format_address("127.0.0.1", self.broker.grpc_door.port)

    # On the caller's event loop

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def advanced(
        self, milliseconds: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0
    ) -> None:
        """Let time pass for the broker, and return when it has done what was due."""
        assert isinstance(self.clock, ManualClock), "only a manual clock can be moved"
        await self._settled()
        self.clock.advance(milliseconds + int(1000 * (seconds + 60 * (minutes + 60 * hours))))
        for _ in range(3):  # what one task puts, another may have to see
            await self.broker.run_due()

    async def _settled(self) -> None:
        """Let requests arrive that clients of this event loop have just begun, and be answered: what was sent before
        time passes must count from then."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        table = self.broker.handlers.table
        for _ in range(_LOOKS_MAX):
            if table.is_idle and not self.broker.store_loop.durability.unacknowledged:
                return
            await asyncio.sleep(0.001)

    async def _start(self) -> None:
        if self._path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="flaremq-")
            self._path = self._folder.name
        try:
            await self._start_servers(self._path)
        except BaseException:
            await self._stop()
            raise

    async def _start_servers(self, path: str) -> None:
        kv_path = os.path.join(path, "config", "kvConfig.json")
        self._namesrv = NamesrvService(NamesrvOptions.from_properties({"listenPort": "0", "kvConfigPath": kv_path}))
        await self._namesrv.start()
        settings = {"listenPort": "0", "namesrvAddr": self._namesrv.address, "mappedFileSizeCommitLog": "16777216"}
        settings |= {"mappedFileSizeConsumeQueue": "600000", "maxHashSlotNum": "10000", "maxIndexNum": "40000"}
        settings |= {"diskMaxUsedSpaceRatio": "95", "grpcServerPort": "-1"}
        if isinstance(self.clock, ManualClock):
            settings["channelExpiredTimeout"] = _NEVER  # an hour by this clock is no time for a client
        broker = BrokerService(path, *load_options(None, settings | self._options), clock=self.clock)
        await broker.start()
        self._broker = broker

    async def _stop(self) -> None:
        if self._broker is not None:
            await self._broker.stop()
        if self._namesrv is not None:
            await self._namesrv.stop()
        if self._folder is not None:
            self._folder.cleanup()

    # On a thread of its own

    def __enter__(self) -> Self:
        # asyncio's own loop, as in ``async with``: the turns counted in ``_settled`` are its turns.
        self._thread = LoopThread("flaremq-test-broker", asyncio.new_event_loop())
        try:
            self.call(self._start())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.call(self._stop())
        finally:
            self.thread.close()

    @property
    def thread(self) -> LoopThread:
        assert self._thread is not None, "the broker runs on a thread inside a plain `with` only"
        return self._thread

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the broker's own event loop and wait for it."""
        return self.thread.call(work, _START_SECONDS)

    def advance(self, milliseconds: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> None:
        """``advanced`` for a broker on a thread of its own."""
        self.call(self.advanced(milliseconds, seconds=seconds, minutes=minutes, hours=hours))
