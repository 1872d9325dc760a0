"""ServerMonitor: metrics and health of a server that has little to tell: name servers and controllers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from flaremq import interpreted
from flaremq.metrics.family import Family, gauge, histogram
from flaremq.metrics.loop_delay import BOUNDS, LoopDelay
from flaremq.metrics.options import EndpointSettings, is_enabled
from flaremq.metrics.samples import Samples

if TYPE_CHECKING:
    from flaremq.metrics.monitor import Monitor

BUILD_INFO = gauge("flaremq_build_info", "Always 1; the version, and whether the core is compiled.", "core version")
LOOP_DELAY = histogram("flaremq_event_loop_delay_seconds", "How late the event loop is.", bounds=BOUNDS)
READY = gauge("flaremq_server_ready", "1: /readyz says so.")
CONNECTIONS = gauge("flaremq_connections", "Connections that are open.")
SERVER_FAMILIES: Final[tuple[Family, ...]] = (BUILD_INFO, CONNECTIONS, LOOP_DELAY, READY)

Figures = Callable[[], Iterable[tuple[Family, float]]]


class ServerMonitor:
    """``start`` it first and ``stop`` it last. Event loop only."""

    def __init__(self, monitor: Monitor, figures: Figures) -> None:
        self.monitor = monitor
        self._figures = figures
        self._loop_delay = LoopDelay()
        monitor.look = self._tell

    @classmethod
    def of(cls, settings: EndpointSettings, common: Mapping[str, str], figures: Figures) -> ServerMonitor | None:
        """None where nothing is to be served."""
        if not is_enabled(settings):
            return None
        from flaremq.metrics.monitor import Monitor  # weighs what a server that is not watched need not carry

        return cls(Monitor(settings, common), figures)

    async def start(self) -> None:
        """Listen; UnavailableError if the port is taken."""
        await self.monitor.start()
        self._loop_delay.start()

    def ready(self, reasons: Callable[[], list[str]] = list) -> None:
        """It serves from now on, but for these reasons."""
        self.monitor.reasons = reasons

    async def stop(self) -> None:
        self._loop_delay.stop()
        await self.monitor.stop()

    @property
    def port(self) -> int:
        return self.monitor.port

    async def _tell(self, samples: Samples) -> None:
        from importlib.metadata import version  # brings a megabyte along

        core = "compiled" if interpreted.reason() is None else "interpreted"
        samples.add(BUILD_INFO, 1, core, version("flaremq"))
        samples.add(LOOP_DELAY, self._loop_delay.histogram)
        samples.add(READY, not self.monitor.reasons())
        for family, value in self._figures():
            samples.add(family, value)


@asynccontextmanager
async def watched(monitor: ServerMonitor | None, reasons: Callable[[], list[str]] = list) -> AsyncGenerator[None]:
    """Around the start of a server: figures are there before it is, and it is ready afterwards but for ``reasons``."""
    if monitor is None:
        yield
        return
    await monitor.start()
    try:
        yield
    except BaseException:
        await monitor.stop()
        raise
    monitor.ready(reasons)
