"""Fixtures for tests in a real browser: one shop for all of them, a Chromium for each file."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser.shop import TOKEN, Shop
from tests.dashboard.browser.window import Window

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder goes to one worker; without a browser it is passed over."""
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.xdist_group("browser"))
        if CHROMIUM is None:
            item.add_marker(pytest.mark.skip(reason="no chromium here: .ci/chromium installs it"))


_OPEN = contextlib.ExitStack()


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return _OPEN.enter_context(Shop(tmp_path_factory.mktemp("shop")))


# A session's fixtures outlive this folder, and other tests of the worker count threads and connections.
@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or HERE not in nextitem.path.parents:
        _OPEN.close()


# Of a module, not of the session: as long as it lives Playwright's own event loop counts as running in this thread, and
# no test of another kind could run one.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def signed_in(chromium: Any, shop: Shop) -> dict[str, Any]:
    """The cookies of somebody who has signed in, through the page."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{shop.url}login?back=topics")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/topics")
    state = context.storage_state()
    context.close()
    return dict(state)


@pytest.fixture
def window(chromium: Any, shop: Shop, signed_in: dict[str, Any]) -> Iterator[Callable[..., Window]]:
    """Opens windows; at the end of the test none of them may have complained."""
    opened = []

    def open_one(*, may_change: bool = False, **settings: Any) -> Window:
        state = signed_in if may_change else None
        made = Window(chromium.new_context(storage_state=state, **settings), shop.url)
        opened.append(made)
        return made

    yield open_one
    for each in opened:
        each.context.close()
    for each in opened:
        each.assert_quiet()
