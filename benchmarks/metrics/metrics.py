"""Metrics: what sends lose while a broker is scraped each second, and what a scrape of a large broker takes.

Two brokers run at the same time, one with the port for metrics and one without; each is idle while the other is
measured. The scraper is a process of its own. The large broker has 10,000 topics of 100 groups each, a million pairs,
of which the limit of series keeps 50,000 a metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks import child
from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row
from tests.interop.wire import servers
from tests.support.ports import free_ports

_WITHOUT = "without metrics"
_WANTED = 0.98
_SCRAPE_SECONDS = 1.0
_STALL_MS = 10.0
_OPTIONS = {"flushDiskType": "ASYNC_FLUSH"}


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    """Measure everything; one outcome a measurement."""
    with scratch(folder) as path, ExitStack() as stack:
        port = free_ports()
        told = {**_OPTIONS, "metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}
        sides = {
            OURS: stack.enter_context(servers.started("flaremq", Path(path) / "told", options=told)),
            _WITHOUT: stack.enter_context(servers.started("flaremq", Path(path) / "silent", options=_OPTIONS)),
        }

        def measure(side: str) -> Row:
            server = sides[side]
            return child.run(
                "metrics.sends:measure",
                address=server.broker,
                pid=server.broker_pid,
                scraped=port if side == OURS else 0,
                warm=settings.wire_warm_seconds,
                seconds=settings.wire_seconds,
            )

        name = "send 1 KB, 64 in flight, scraped each second"
        figures = (
            Figure(label=name, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=_WANTED),
            Figure(label="  broker's CPU per send", unit="us", ours="cpu_us", theirs="cpu_us", less_is_better=True),
            Figure(label="  one scrape meanwhile", unit="ms", ours="scrape_ms", less_is_better=True),
        )
        yield turns(name, figures, settings.wire_rounds, (OURS, _WITHOUT), measure)
    name = "scrape of 10,000 topics x 100 groups"
    figures = (
        Figure(label=name, unit="s", ours="seconds", less_is_better=True, wanted_bound=_SCRAPE_SECONDS),
        Figure(
            label="  longest pause of the event loop",
            unit="ms",
            ours="stall_ms",
            less_is_better=True,
            wanted_bound=_STALL_MS,
        ),
        Figure(label="  text", unit="MB", ours="MB", less_is_better=True),
    )

    def scrape(side: str) -> Row:
        with scratch(folder) as path:
            return child.run("metrics.large_broker:measure", folder=path, topics=10_000, groups=100)

    yield turns(name, figures, settings.rounds, (OURS,), scrape)
