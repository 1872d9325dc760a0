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

from tests.dashboard.browser.shop import TOKEN, TRACED, Shop  # noqa: E402

FOLDER = ROOT / "docs" / "images" / "dashboard"
SIZE = {"width": 1200, "height": 800}
BUSY_SECONDS = 40  # until the curves have something to show
TABLE = "iceberg:lake.sales.orders"
COLOURS_MAX, COMMON_COLOURS = 64, 16
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
    with tempfile.TemporaryDirectory() as folder, Shop(Path(folder), has_strangers=False, tables=(TABLE,)) as shop:
        shop.keep_busy()
        for _ in range(2):
            time.sleep(BUSY_SECONDS / 2)
            write_table(shop.name_server, folder)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport=SIZE, color_scheme=scheme)
                page = context.new_page()
                for name in reversed(names or list(PAGES)):  # "login" comes first, before anybody has signed in
                    take(page, shop, name, scheme)
                context.close()
            browser.close()


def write_table(name_server: str, folder: str) -> None:
    """What `pipeline table` does, under a group of its own."""
    from flaremq.pipeline.jobs.table import table
    from flaremq.pipeline.tables.model.target import parse_target

    options = {"nameServer": name_server, "topic": "orders", "consumerGroup": "orders-to-iceberg"}
    table(None, options, parse_target(TABLE, warehouse=f"{folder}/lake"))


def take(page: Any, shop: Shop, name: str, scheme: str) -> None:
    """One picture."""
    if name != "login" and not page.context.cookies():
        sign_in(page, shop)
    path = PAGES[name]
    if name == "message":
        path = f"messages/{shop.sent[TRACED]}?topic=orders&as=json"
    if name == "trace":
        path = f"trace?id={shop.sent[TRACED]}&topic=orders"
    page.goto(shop.url + path)
    if name == "reset":
        page.locator("summary", has_text="Reset offsets").click()
        page.locator("form[data-action='group.reset']").get_by_role("button", name="Preview").click()
        page.locator("dialog #answer").wait_for()
    page.wait_for_timeout(2500)  # the first changes of the stream
    place = FOLDER / f"{name}-{scheme}.png"
    page.screenshot(path=place)
    shrink(page, place)
    print(place.relative_to(ROOT), place.stat().st_size)


def sign_in(page: Any, shop: Shop) -> None:
    page.goto(f"{shop.url}login")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()


def shrink(page: Any, place: Path) -> None:
    """To a palette of the commonest colours: half the size, and pages have few. The browser decodes the picture."""
    import base64
    import struct
    import zlib

    import numpy

    content = base64.b64encode(place.read_bytes()).decode()
    pixels = base64.b64decode(page.evaluate(_DECODE, content))
    width, height = SIZE["width"], SIZE["height"]
    picture = numpy.frombuffer(pixels, numpy.uint8).reshape(-1, 4)[:, :3].astype(numpy.int32)
    colours, which, counts = numpy.unique(
        picture @ numpy.array([65536, 256, 1]), return_inverse=True, return_counts=True
    )
    parts = numpy.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
    # The commonest, then those that are farthest from all of these: a green dot is small and must stay green.
    chosen = list(numpy.argsort(-counts)[:COMMON_COLOURS])
    distance = ((parts[:, None, :] - parts[chosen][None, :, :]) ** 2).sum(axis=2).min(axis=1)
    while len(chosen) < min(COLOURS_MAX, len(parts)):
        chosen.append(int((distance * numpy.sqrt(counts)).argmax()))
        distance = numpy.minimum(distance, ((parts - parts[chosen[-1]]) ** 2).sum(axis=1))
    palette = parts[chosen]
    nearest = ((parts[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    rows = nearest[which].astype(numpy.uint8).reshape(height, width)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(numpy.uint8).tobytes()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    out = b"\x89PNG\r\n\x1a\n"
    for name, data in chunks:
        out += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    place.write_bytes(out)


_DECODE = """async (content) => {
    const bytes = Uint8Array.from(atob(content), (char) => char.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    const pixels = context.getImageData(0, 0, picture.width, picture.height).data;
    let text = "";
    for (let at = 0; at < pixels.length; at += 32768) text += String.fromCharCode(...pixels.subarray(at, at + 32768));
    return btoa(text);
}"""


if __name__ == "__main__":
    main(sys.argv[1:])
