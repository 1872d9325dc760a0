"""Pages that stay open for an hour: neither the browser nor the dashboard grows.

An hour passes in three minutes here: the clock runs twenty times as fast, and so often everything is asked and drawn.
"""

from __future__ import annotations

import gc
import itertools
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq import dashboard
from flaremq.clock import SystemClock
from flaremq.dashboard.app.views import PAGES
from tests.dashboard.browser.shop import AUDIT, ORDERS, Shop

pytestmark = pytest.mark.soak

FASTER = 20
QUARTER_MS, HOUR_MS = 15 * 60_000, 60 * 60_000  # curves are a quarter of an hour long: then they are full
WATCHED = ("", "topics", f"topics/{ORDERS}", f"groups/{AUDIT}?tab=lag")
PAGE_BYTES_MAX, DASHBOARD_BYTES_MAX = 1_000_000, 300_000
OWN = tracemalloc.Filter(True, f"{Path(dashboard.__file__).parent}/*")


class FastClock(SystemClock):
    """Twenty hours in one."""

    def __init__(self) -> None:
        self._began_ms, self._began = super().now_ms(), time.monotonic()

    def now_ms(self) -> int:
        return self._began_ms + int((time.monotonic() - self._began) * 1000 * FASTER)

    def monotonic(self) -> float:
        return time.monotonic() * FASTER


@pytest.fixture
def fast_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for name, kind in PAGES.items():
        if kind.seconds is not None:
            monkeypatch.setitem(PAGES, name, replace(kind, seconds=kind.seconds / FASTER))  # type: ignore[arg-type]
    with Shop(tmp_path, can_change=False, has_strangers=False, clock=FastClock()) as shop:
        for step in shop.service.context.sampler._steps:
            step.seconds /= FASTER
        shop.keep_busy()
        yield shop


class Sizes:
    """What each page and the dashboard hold, after everything was thrown away that can be."""

    def __init__(self, pages: list[Any]) -> None:
        self.heaps, self.nodes, self.listeners = [], [], []
        for page in pages:
            session = page.context.new_cdp_session(page)
            session.send("HeapProfiler.collectGarbage")
            self.heaps.append(session.send("Runtime.getHeapUsage")["usedSize"])
            counted = session.send("Memory.getDOMCounters")
            self.nodes.append(counted["nodes"])
            self.listeners.append(counted["jsEventListeners"])
            session.detach()
        gc.collect()
        held = tracemalloc.take_snapshot().filter_traces([OWN]).statistics("filename")
        self.dashboard = sum(one.size for one in held)


def test_pages_that_are_open_for_an_hour_do_not_grow(chromium: Any, fast_shop: Shop) -> None:
    contexts = [chromium.new_context() for _ in WATCHED]
    pages = [context.new_page() for context in contexts]
    tracemalloc.start(1)
    try:
        for page, path in zip(pages, WATCHED, strict=True):
            page.goto(fast_shop.url + path)
            page.locator("#age.is-live").wait_for()
        clock = fast_shop.service.context.clock
        began, sizes = clock.now_ms(), []
        for until in (QUARTER_MS, QUARTER_MS + HOUR_MS):
            shown = [page.locator("#age-text").inner_text() for page in pages]
            while clock.now_ms() < began + until:
                pages[0].wait_for_timeout(1000)
            now = [page.locator("#age-text").inner_text() for page in pages]
            assert all(old != new for old, new in zip(shown, now, strict=True)), (shown, now)
            for page in pages:  # who was too slow for a moment comes back by itself
                page.locator("#age.is-live").wait_for()
            sizes.append(Sizes(pages))
        before, after = sizes
        grown = [new - old for old, new in zip(before.heaps, after.heaps, strict=True)]
        told = {"pages": dict(zip(WATCHED, grown, strict=True)), "dashboard": after.dashboard - before.dashboard}
        print(told, "nodes", before.nodes, after.nodes)
        assert max(grown) < PAGE_BYTES_MAX, told
        assert after.dashboard - before.dashboard < DASHBOARD_BYTES_MAX, told
        for old, new in itertools.chain(
            zip(before.nodes, after.nodes, strict=True), zip(before.listeners, after.listeners, strict=True)
        ):
            assert new < old + max(100, old // 5), (before.nodes, after.nodes, before.listeners, after.listeners)
    finally:
        tracemalloc.stop()
        for context in contexts:
            context.close()
