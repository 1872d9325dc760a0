"""The dashboard: what 200 open pages cost a broker and the dashboard, and how soon the overview is painted.

A name server, a broker and a dashboard, each a process of its own as a user starts them; the broker has 1,000 topics
and gets 50 messages a second all the while. Pages are streams that are read as a browser reads them, of five kinds, and
four ways each to sort a list.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import child
from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row
from tests.interop.wire import servers
from tests.support.ports import free_ports

_TOPICS = 1_000
_PAGES = 200
_WITHOUT = "no page open"
_BROKER_PERCENT = 5.0
_PAINT_MS = 1_000.0
_KB = 300.0
_READY_SECONDS = 60
CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    """Measure everything; one outcome a measurement."""
    with scratch(folder) as path, ExitStack() as stack:
        root = Path(path)
        cluster = stack.enter_context(servers.started("flaremq", root, options={"flushDiskType": "ASYNC_FLUSH"}))
        asyncio.run(_make_topics(cluster.name_server))
        port = free_ports()
        watcher = stack.enter_context(_dashboard(root, cluster.name_server, port))

        def measure(side: str) -> Row:
            return child.run(
                "dashboard.open_pages:measure",
                port=port,
                name_server=cluster.name_server,
                pids={"broker": cluster.broker_pid, "dashboard": watcher.pid},
                pages=_PAGES if side == OURS else 0,
                warm=settings.wire_warm_seconds + 2,  # a list of 1,000 topics is read in slices
                seconds=2 * settings.wire_seconds,
            )

        name = f"{_PAGES} open pages, {_TOPICS:,} topics"
        figures = (
            Figure(
                label=f"{name}: broker",
                unit="% of a core",
                ours="broker",
                theirs="broker",
                less_is_better=True,
                wanted_bound=_BROKER_PERCENT,
            ),
            Figure(label="  dashboard", unit="% of a core", ours="dashboard", theirs="dashboard", less_is_better=True),
            Figure(label="  events read", unit="1/s", ours="events_s"),
        )
        yield turns(name, figures, settings.wire_rounds, (OURS, _WITHOUT), measure)
        if CHROMIUM is not None:
            yield _paint(port, settings.wire_rounds)


def why_not() -> str | None:
    """Why it cannot be measured here, or None."""
    return None if CHROMIUM is not None else "there is no Chromium (.ci/chromium)"


def _paint(port: int, rounds: int) -> Outcome:
    name = "overview in Chromium, nothing cached"
    figures = (
        Figure(label=f"{name}: first paint", unit="ms", ours="paint_ms", less_is_better=True, wanted_bound=_PAINT_MS),
        Figure(label="  all it loads", unit="KB", ours="KB", less_is_better=True, wanted_bound=_KB),
    )

    def measure(side: str) -> Row:
        return child.run("dashboard.first_paint:measure", address=f"http://127.0.0.1:{port}/", chromium=CHROMIUM)

    return turns(name, figures, rounds, (OURS,), measure)


async def _make_topics(name_server: str) -> None:
    from flaremq import Admin

    async with Admin(name_server) as admin:
        for number in range(_TOPICS):
            await admin.create_topic(f"topic-{number:04}", read_queues=4, write_queues=4)


@contextmanager
def _dashboard(root: Path, name_server: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "flaremq", "dashboard", "-n", name_server, "--listen", f"127.0.0.1:{port}"]
    with open(root / "dashboard.out", "wb") as out:
        process = subprocess.Popen([*command, "--audit", str(root)], stdout=out, stderr=out)
    try:
        until = time.monotonic() + _READY_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise RuntimeError((root / "dashboard.out").read_text()) from None
                time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()
