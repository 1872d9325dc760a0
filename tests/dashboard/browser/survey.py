"""One visit to every page, noting all that tests want to know of it: pages are slow to open, notes are not."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.dashboard.browser.window import Window

ALL_RULES: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
CONTRAST = {**ALL_RULES, "runOnly": ["color-contrast"]}
WIDTHS = (1200, 390)
# What a page would have if a name in it were taken for markup.
FOREIGN = "main img, main b b, main i, main script, main svg[onload], main iframe"


# A card with a table and no address of it as CSV.
UNSAVED = "main section:has(table:not(.u-legend)):not(:has(a[href*='format=csv']))"


@dataclass
class Visit:
    """What was seen of a page."""

    text: str
    title: str
    foreign_elements: int
    grave: list[str] = field(default_factory=list)
    overflow: dict[int, int] = field(default_factory=dict)
    downloads: dict[str, str] = field(default_factory=dict)  # address: JSON or CSV
    unsaved: int = 0  # tables that cannot be had as CSV


def visit(window: Window, path: str) -> Visit:
    """Look at a page in both themes and on a desk and a phone."""
    page = window.go(path)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    seen = Visit(page.inner_text("body"), page.title(), page.locator(FOREIGN).count())
    seen.unsaved = page.locator(UNSAVED).count()
    for scheme, options in (("light", ALL_RULES), ("dark", CONTRAST)):
        page.emulate_media(color_scheme=scheme)
        seen.grave += [f"{scheme}: {problem}" for problem in grave_problems(page, options)]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        seen.overflow[width] = window.overflow()
    page.set_viewport_size({"width": WIDTHS[0], "height": 800})
    for link in page.locator(".table-foot a").all():
        if (name := link.inner_text()) in ("JSON", "CSV"):
            seen.downloads[link.evaluate("link => link.href")] = name
    return seen


@cache
def axe_source() -> str:
    """axe-core, out of its package for Playwright, whose own runner loads it for every look and returns megabytes."""
    import axe_playwright_python

    (found,) = Path(axe_playwright_python.__file__).parent.rglob("axe.min.js")
    return found.read_text(encoding="utf-8")


_LOOK = """async options => (await axe.run(document, options)).violations
    .filter(one => ["serious", "critical"].includes(one.impact))
    .map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(" | ")}`)"""


def grave_problems(page: Any, options: dict[str, Any]) -> list[str]:
    """What axe-core finds that keeps somebody out."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_source())
    return list(page.evaluate(_LOOK, options))
