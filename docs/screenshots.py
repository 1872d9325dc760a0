"""Make the pictures of docs/dashboard.md: every page of a small, busy shop, in light and dark.

Usage: python docs/screenshots.py [page ...]    (make screenshots). Needs Chromium (.ci/chromium).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.dashboard.browser.shop import TOKEN, Shop  # noqa: E402

FOLDER = ROOT / "docs" / "images" / "dashboard"
SIZE = {"width": 1200, "height": 800}
BUSY_SECONDS = 20  # until the curves have something to show
COLOURS_MAX = 64
# Name of the picture: address, and what is done before it is taken.
PAGES = {
    "overview": "",
    "brokers": "brokers",
    "broker": "brokers/broker-a",
    "topics": "topics",
    "topic": "topics/orders",
    "groups": "groups",
    "group": "groups/billing?tab=lag",
    "reset": "groups/audit",
    "clients": "clients",
    "messages": "messages?topic=orders",
    "message": "",
    "trace": "",
    "dead-letters": "dlq/shipping",
    "waiting": "waiting",
    "store": "store",
    "spark": "spark",
    "access": "access",
    "login": "login",
}


def main(names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: see .ci/chromium")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Shop(Path(folder), has_strangers=False) as shop:
        shop.keep_busy()
        time.sleep(BUSY_SECONDS)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport=SIZE, color_scheme=scheme)
                page = context.new_page()
                for name in reversed(names or list(PAGES)):  # "login" comes first, before anybody has signed in
                    take(page, shop, name, scheme)
                context.close()
            browser.close()


def take(page: Any, shop: Shop, name: str, scheme: str) -> None:
    """One picture."""
    if name != "login" and not page.context.cookies():
        sign_in(page, shop)
    path = PAGES[name]
    if name == "message":
        path = f"messages/{shop.sent[7]}?topic=orders&as=json"
    if name == "trace":
        path = f"trace?id={shop.sent[7]}&topic=orders"
    page.goto(shop.url + path)
    if name == "reset":
        page.locator("summary", has_text="Reset offsets").click()
        page.locator("form[data-action='group.reset']").get_by_role("button", name="Preview").click()
        page.locator("dialog #answer").wait_for()
    page.wait_for_timeout(2500)  # the first changes of the stream
    place = FOLDER / f"{name}-{scheme}.png"
    page.screenshot(path=place)
    shrink(place)
    print(place.relative_to(ROOT), place.stat().st_size)


def sign_in(page: Any, shop: Shop) -> None:
    page.goto(f"{shop.url}login")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()


def shrink(place: Path) -> None:
    """To a palette, where Pillow is at hand: a quarter of the size."""
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(place) as picture:
        smaller = picture.convert("RGB").quantize(COLOURS_MAX, dither=Image.Dither.NONE)
    smaller.save(place, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
