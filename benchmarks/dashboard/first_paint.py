"""How soon a browser that has nothing of it shows the overview, and how much it has to load for that."""

from __future__ import annotations

import statistics

from benchmarks.timing import Row

_LOOKS = 5
_FLAGS = ["--no-sandbox", "--disable-gpu"]
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_BYTES = (
    "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
    ".reduce((sum, one) => sum + one.transferSize, 0)"
)


def measure(*, address: str, chromium: str) -> Row:
    from playwright.sync_api import sync_playwright

    paints, sizes = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        for _ in range(_LOOKS):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto(address, wait_until="load")
            page.locator("#age.is-live").wait_for()
            paints.append(page.evaluate(_PAINT))
            sizes.append(page.evaluate(_BYTES) / 1000)
            context.close()
        browser.close()
    return {"paint_ms": round(statistics.median(paints), 1), "KB": round(max(sizes), 1)}
