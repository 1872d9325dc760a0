"""Every page in a real browser: no complaint, nothing from elsewhere, readable by everyone, names as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.dashboard.browser.shop import (
    AUDIT,
    BILLING,
    DEAD,
    HOSTILE,
    HOSTILE_GROUP,
    ORDERS,
    SHIPPING,
    TRACED,
    Shop,
)
from tests.dashboard.browser.survey import ALL_RULES, Visit, grave_problems, visit
from tests.dashboard.browser.window import Window

Windows = Callable[..., Window]
STRANGER = quote(HOSTILE, safe="")
# Each page, and something that is on it only if its data arrived.
PAGES = {
    "": "broker-a",
    "brokers": "broker-a",
    "brokers/broker-a": "Request lanes",
    "topics": ORDERS,
    "topics?type=system": "SCHEDULE_TOPIC_XXXX",
    "topics/orders": "broker-a",
    "topics/orders?tab=groups": BILLING,
    "topics/orders?tab=messages": "Follow new messages",
    "topics/orders?tab=config": "broker-a",
    f"topics/{STRANGER}": "broker-a",
    "groups": AUDIT,
    "groups/billing": ORDERS,
    "groups/billing?tab=members": "PYTHON",
    "groups/billing?tab=lag": ORDERS,
    "groups/billing?tab=config": "consume",
    "clients": HOSTILE_GROUP,
    "messages?topic=orders": "order-59",
    "trace": "Enter a message id or a key",
    "dlq": SHIPPING,
    "dlq/shipping": "%DLQ%shipping",
    "waiting": "payments",
    "store": "00000000000000000000",
    "spark": "Queries",
    "access": "access control is off",
    "search?q=order": ORDERS,
    "login": "Token",
}


def addresses(shop: Shop) -> list[str]:
    traced = f"trace?id={shop.sent[TRACED]}&topic=orders"
    return [*PAGES, traced, f"messages/{shop.sent[0]}?topic=orders", f"messages/{shop.hostile_id}?topic=orders"]


@pytest.fixture(scope="module")
def seen(chromium: Any, signed_in: dict[str, Any], shop: Shop) -> dict[str, Visit]:
    window = Window(chromium.new_context(storage_state=signed_in), shop.url)
    strange = [f"search?q={quote(HOSTILE[:30])}", f"topics?type=all&q={quote(HOSTILE[:20])}"]
    found = {path: visit(window, path) for path in [*addresses(shop), *strange] if path != "login"}
    window.context.close()
    window.assert_quiet()
    return found


def test_every_page_is_accessible_in_both_themes(seen: dict[str, Visit]) -> None:
    assert {path: page.grave for path, page in seen.items() if page.grave} == {}


def test_signing_in_is_accessible(window: Windows) -> None:
    assert grave_problems(window().go("login"), ALL_RULES) == []


def test_no_page_is_wider_than_its_window(seen: dict[str, Visit]) -> None:
    assert {path: page.overflow for path, page in seen.items() if any(page.overflow.values())} == {}


def test_strange_names_are_text_wherever_they_are_shown(seen: dict[str, Visit]) -> None:
    for path, page in seen.items():
        assert page.foreign_elements == 0, path
        assert "FlareMQ" in page.title
        assert not {"\u202e", "\u200f", "\x00"} & set(page.text), path
    assert sum("<img src=x onerror=" in page.text for page in seen.values()) >= 5


def test_every_table_is_offered_as_json_and_as_csv(seen: dict[str, Visit], chromium: Any) -> None:
    context = chromium.new_context()
    for path, page in seen.items():
        assert page.unsaved == 0, path
    for address, kind in {address: kind for page in seen.values() for address, kind in page.downloads.items()}.items():
        answer = context.request.get(address)
        assert answer.status == 200, address
        assert answer.headers["content-type"].startswith("text/csv" if kind == "CSV" else "application/json"), address
    context.close()


def test_every_page_has_its_data_without_scripts(window: Windows, shop: Shop) -> None:
    plain = window(java_script_enabled=False)
    for path in addresses(shop):
        page = plain.go(path)
        expected = PAGES.get(path, "shop")
        assert expected in page.inner_text("body"), path
        assert page.locator("h1").count() == 1 and page.locator("main").count() == 1


def test_chinese_pages_are_chinese_and_fit(window: Windows, shop: Shop) -> None:
    opened = window(locale="zh-CN", viewport={"width": 1200, "height": 800}, java_script_enabled=False)
    for path in addresses(shop):
        page = opened.go(path)
        assert page.locator("html").get_attribute("lang") == "zh-CN"
        assert re.search(r"[\u4e00-\u9fff]{2}", page.inner_text("main")), path
        assert "概览" in page.inner_text("nav.side")
        assert opened.overflow() == 0, path


def test_a_body_full_of_markup_is_text_in_every_view(window: Windows, shop: Shop) -> None:
    page = window().go(f"messages/{shop.hostile_id}?topic=orders")
    content = page.locator("#body-content")
    for name in ("Hex", "Text"):
        page.locator("#body").get_by_role("link", name=name, exact=True).click()
        page.locator(f"#body a[aria-current][data-kind={name.lower()}]").wait_for()
        expected = "3c 69 6d 67" if name == "Hex" else "<img src=x onerror="
        assert expected in content.inner_text().lower()
        assert content.locator("img, b, script").count() == 0
    assert "\\u0000\\u0007<b>bold</b>" in content.inner_text()


def test_the_body_viewer_shows_json_as_a_tree_with_exact_numbers(window: Windows, shop: Shop) -> None:
    page = window().go(f"messages/{shop.sent[3]}?topic=orders")
    page.locator("#body").get_by_role("link", name="JSON").click()
    page.wait_for_url("**as=json#body")  # the page before shows a tree, too
    tree = page.locator("#body-content .json")
    tree.wait_for()
    assert "order: 3" in tree.inner_text()
    assert "count: 9007199254740993" in tree.inner_text()


def test_the_overview_is_small_and_comes_at_once(window: Windows) -> None:
    opened = window()
    sizes: list[int] = []
    opened.page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page = opened.go("")
    page.wait_for_load_state("load")
    page.locator("#age.is-live").wait_for()
    total = page.evaluate(
        "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
        ".reduce((sum, one) => sum + one.transferSize, 0)"
    )
    assert 20_000 < total < 300_000


def test_the_message_count_of_the_dead_letters_is_the_number_given_up(window: Windows) -> None:
    page = window().go("dlq")
    row = page.get_by_role("row", name=re.compile(SHIPPING))
    assert row.locator("[data-live=count]").inner_text() == str(DEAD)
    page.get_by_role("link", name=SHIPPING).click()
    assert page.locator("tbody tr").count() == DEAD


def test_pages_of_a_list_and_its_order_have_addresses(window: Windows, shop: Shop) -> None:
    page = window().go("topics?type=all&limit=2")
    first = page.locator("tbody tr").first.inner_text()
    page.get_by_role("link", name="Next").click()
    assert "cursor=" in page.url and page.locator("tbody tr").first.inner_text() != first
    page.goto(f"{shop.url}topics")
    page.get_by_role("link", name="Messages kept").click()
    assert page.get_by_role("columnheader", name="Messages kept").get_attribute("aria-sort") == "descending"
    assert "sort=-messages" in page.url
    assert page.locator("tbody tr").first.locator("th").inner_text() == ORDERS
    page.get_by_role("link", name="Messages kept").click()
    assert page.get_by_role("columnheader", name="Messages kept").get_attribute("aria-sort") == "ascending"


def test_the_search_box_finds_topics_groups_and_messages(window: Windows, shop: Shop) -> None:
    page = window().go("")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.get_by_role("main").get_by_role("link", name=ORDERS, exact=True).first.wait_for()
    page.goto(f"{shop.url}search?q={shop.sent[0]}")
    assert shop.sent[0] in page.get_by_role("main").inner_text()
