"""Liveness: values change where they stand, rows come, the tail follows and pauses; figures are the cluster's."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from flaremq.client.admin.admin import Admin
from flaremq.dashboard.app.render import FILTERS
from tests.dashboard.browser.shop import AUDIT, BILLING, ORDERS, Shop
from tests.dashboard.browser.window import Window

Windows = Callable[..., Window]
SOON = 20_000  # ms; how long to wait for what comes within a second or two on an idle machine


def shown(number: int) -> str:
    return f"{number:,}"


async def stored(admin: Admin, topic: str) -> int:
    """How many messages a topic has, as the broker says."""
    return sum(end.max_offset - end.min_offset for end in (await admin.topic_status(topic)).values())


async def lag(admin: Admin, group: str, topic: str) -> int:
    progress = await admin.group_progress(group, topic=topic)
    return sum(queue.broker_offset - queue.consumer_offset for queue in progress.offset_table.values())


def test_figures_are_those_that_an_administrator_is_told(window: Windows, shop: Shop) -> None:
    page = window().go("topics")
    count = shop.do(lambda admin: stored(admin, ORDERS))
    row = page.locator("tbody tr", has=page.get_by_role("link", name=ORDERS, exact=True)).first
    expect(row.locator("[data-live=messages]")).to_have_text(shown(count), timeout=SOON)
    page = window().go("groups")
    behind = shop.do(lambda admin: lag(admin, AUDIT, ORDERS))
    row = page.locator("tbody tr", has=page.get_by_role("link", name=AUDIT, exact=True)).first
    expect(row.locator("[data-live=lag]")).to_have_text(shown(behind), timeout=SOON)
    page = window().go(f"topics/{ORDERS}")
    for queue, end in shop.do(lambda admin: admin.topic_status(ORDERS)).items():
        row = page.locator(f"tr[data-id='broker-a/{queue.queue_id}']")
        expect(row.locator("[data-live=max_offset]")).to_have_text(shown(end.max_offset), timeout=SOON)


def test_a_value_changes_after_a_send_without_the_page_being_read_again(window: Windows, shop: Shop) -> None:
    page = window().go("topics")
    page.locator("#age.is-live").wait_for()
    page.evaluate("document.body.dataset.same = 'yes'")
    cell = page.locator(f"tr[data-id={ORDERS}] [data-live=messages]")
    before = int(cell.inner_text().replace(",", ""))
    shop.send(ORDERS, b'{"late": true}', keys="late")
    expect(cell).to_have_text(shown(before + 1), timeout=SOON)
    assert page.locator("body").get_attribute("data-same") == "yes"


def test_totals_and_curves_of_the_overview_move(window: Windows, shop: Shop) -> None:
    page = window().go("")
    page.locator("#age.is-live").wait_for()
    before = page.locator("#age-text").inner_text()
    today = page.locator("[data-live='/totals/messages_in_today']")
    count = today.inner_text()
    expect(page.locator(".curve canvas").first).to_be_visible(timeout=SOON)
    shop.send(ORDERS)
    expect(today).not_to_have_text(count, timeout=SOON)
    expect(page.locator("#age-text")).not_to_have_text(before, timeout=SOON)
    assert re.search(r"\d messages per second in, total lag \d", page.locator("#totals").text_content() or "")


def test_a_topic_that_was_made_meanwhile_appears_in_the_list(window: Windows, shop: Shop) -> None:
    page = window().go("topics?q=newcomer")
    page.locator("#age.is-live").wait_for()
    assert page.locator("tbody tr").count() == 0
    shop.do(lambda admin: admin.create_topic("newcomer-1"))
    expect(page.get_by_role("link", name="newcomer-1")).to_be_visible(timeout=SOON)
    shop.do(lambda admin: admin.create_topic("newcomer-2"))
    expect(page.get_by_role("link", name="newcomer-2")).to_be_visible(timeout=SOON)
    shop.do(lambda admin: admin.delete_topic("newcomer-1"))
    expect(page.get_by_role("link", name="newcomer-1")).to_have_count(0, timeout=SOON)


def test_the_keyboard_stays_where_it_is_while_values_change(window: Windows, shop: Shop) -> None:
    page = window().go("groups")
    page.locator("#age.is-live").wait_for()
    link = page.get_by_role("link", name=BILLING, exact=True)
    link.focus()
    before = page.locator("#age-text").inner_text()
    shop.send(ORDERS)
    expect(page.locator("#age-text")).not_to_have_text(before, timeout=SOON)
    expect(link).to_be_focused()


def test_the_tail_follows_pauses_and_goes_on(window: Windows, shop: Shop) -> None:
    page = window().go(f"messages?topic={ORDERS}&limit=20")
    page.get_by_role("button", name="Follow new messages").click()
    page.locator("#tail-state[data-state=on]").wait_for(timeout=SOON)
    first = shop.send(ORDERS, b"<b>new</b>", keys="tail-1", tags="<i>")
    row = page.locator("#message-rows tr").first
    expect(row).to_contain_text(first, timeout=SOON)
    expect(row).to_contain_text("<b>new</b>")
    page.get_by_role("button", name="Pause").click()
    second = shop.send(ORDERS, b"{}", keys="tail-2")
    expect(page.locator("#tail-state")).to_contain_text("Waiting messages: 1.", timeout=SOON)
    assert second not in page.locator("#message-rows").inner_text()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#message-rows tr").first).to_contain_text(second)
    page.get_by_role("link", name=second).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(second)


def test_scripts_and_templates_write_values_alike(window: Windows) -> None:
    values = [
        0,
        1,
        9,
        10,
        99.95,
        100,
        999,
        1000,
        1023,
        1024,
        1536,
        12_345,
        123_456_789,
        0.4,
        1.27,
        59_999,
        60_000,
        86_400_000,
    ]
    kinds = ("number", "size", "duration", "moment", "rate", "percent")
    page = window().go("login")
    script = """async ([values, kinds]) => {
        const format = await import(new URL("static/format.js", location.href));
        return kinds.map(kind => values.map(value => format.shown(value, kind)));
    }"""
    values += [0.001, 0.0999, 0.1, 0.756]
    for kind, told in zip(kinds, page.evaluate(script, [values, list(kinds)]), strict=True):
        unit = "/s" if kind == "rate" else ""
        assert [FILTERS[kind](value) + unit for value in values] == told, kind
    script = "async () => (await import(new URL('static/format.js', location.href))).number('9007199254740993')"
    assert page.evaluate(script) == "9,007,199,254,740,993"


def test_colours_and_language_are_switched_and_kept(window: Windows) -> None:
    page = window().go("topics")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 27)"
    page.get_by_role("link", name="Groups").first.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(page.get_by_role("heading", level=1)).to_have_text("消费组")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
