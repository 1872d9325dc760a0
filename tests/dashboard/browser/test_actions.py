"""Actions by mouse and keyboard: each asks first what would happen, wants the name typed, and does what it said."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from flaremq.client.admin.admin import Admin
from tests.dashboard.browser.shop import AUDIT, BILLING, ORDERS, SHIPPING, Shop
from tests.dashboard.browser.test_live import SOON, lag, stored
from tests.dashboard.browser.window import Window

Windows = Callable[..., Window]


def preview(page: Any, action: str, **fields: str) -> Any:
    """Open a form, fill it in, ask what would happen; the dialog."""
    form = page.locator(f"form[data-action='{action}']:not([data-final])").first
    details = page.locator("details.act", has=page.locator(f"form[data-action='{action}']"))
    if details.count() and details.first.get_attribute("open") is None:
        details.first.locator("summary").click()
    for name, value in fields.items():
        field = form.locator(f"[name={name}]")
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    form.locator("button[type=submit]").click()
    dialog = page.locator("dialog#dialog")
    expect(dialog.get_by_text("Preview: nothing has happened yet.")).to_be_visible(timeout=SOON)
    return dialog


def confirm(dialog: Any, name: str = "") -> Any:
    """Type the name and do it; the dialog with the outcome."""
    button = dialog.locator("form[data-final] button[type=submit]")
    if name:
        expect(button).to_be_disabled()
        dialog.get_by_label(f"Type {name} to confirm").fill(name)
    button.click()
    expect(dialog.get_by_text(re.compile(r"Done: \d+\. Failed: 0\."))).to_be_visible(timeout=SOON)
    return dialog


def leave(page: Any) -> None:
    """Close the outcome: the page shows what is true now."""
    with page.expect_navigation():
        page.locator("dialog [data-close]").click()


def test_a_topic_is_made_changed_written_to_and_deleted(window: Windows, shop: Shop) -> None:
    page = window(may_change=True).go("topics")
    dialog = preview(page, "topic.create", topic="returns", read_queues="4", write_queues="4")
    assert "returns" not in shop.do(lambda admin: admin.list_topics())
    confirm(dialog)
    assert "returns" in shop.do(lambda admin: admin.list_topics())
    page.goto(f"{shop.url}topics/returns?tab=config")
    confirm(preview(page, "topic.update", read_queues="6", write_queues="6"))
    assert shop.do(lambda admin: admin.topic_config("returns", "broker-a")).write_queue_nums == 6
    page.goto(f"{shop.url}topics/returns?tab=messages")
    dialog = preview(page, "message.send", body="<b>one</b>", tags="T", keys="k1 k2", properties="colour=red")
    assert shop.do(lambda admin: stored(admin, "returns")) == 0
    confirm(dialog)
    assert shop.do(lambda admin: stored(admin, "returns")) == 1
    [sent] = shop.do(lambda admin: admin.query_by_key("returns", "k2"))
    assert (sent.body, sent.tags, sent.properties["colour"]) == (b"<b>one</b>", "T", "red")
    page.goto(f"{shop.url}topics/returns?tab=config")
    confirm(preview(page, "topic.delete"), "returns")
    assert "returns" not in shop.do(lambda admin: admin.list_topics())


def test_a_reset_is_done_by_keyboard_alone(window: Windows, shop: Shop) -> None:
    before = shop.do(lambda admin: lag(admin, AUDIT, ORDERS))
    page = window(may_change=True).go(f"groups/{AUDIT}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    summary = page.locator("summary", has_text="Reset offsets")
    for _ in range(80):
        page.keyboard.press("Tab")
        if summary.evaluate("one => one === document.activeElement"):
            break
    expect(summary).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("form[data-action='group.reset'] [name=topic]")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type(ORDERS)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    field = page.get_by_label(f"Type {AUDIT} to confirm")
    expect(field).to_be_focused(timeout=SOON)
    expect(page.locator("dialog")).to_contain_text("Read again")
    page.keyboard.press("Escape")  # nothing happens, and the keyboard is where it was
    expect(page.locator("form[data-action='group.reset']:not([data-final]) button")).to_be_focused()
    assert shop.do(lambda admin: lag(admin, AUDIT, ORDERS)) == before
    page.keyboard.press("Enter")
    expect(field).to_be_focused(timeout=SOON)
    page.keyboard.type(AUDIT)
    page.keyboard.press("Enter")
    expect(page.locator("dialog").get_by_text("Failed: 0.")).to_be_visible(timeout=SOON)
    total = shop.do(lambda admin: stored(admin, ORDERS))
    assert shop.do(lambda admin: lag(admin, AUDIT, ORDERS)) == total > before


def test_offsets_are_skipped_copied_and_a_group_deleted(window: Windows, shop: Shop) -> None:
    page = window(may_change=True).go(f"groups/{SHIPPING}")
    confirm(preview(page, "group.skip", topic=ORDERS), SHIPPING)
    assert shop.do(lambda admin: lag(admin, SHIPPING, ORDERS)) == 0
    leave(page)
    shop.do(lambda admin: admin.create_group("shipping-2"))
    confirm(preview(page, "group.copy", topic=ORDERS, target="shipping-2"), "shipping-2")
    assert shop.do(lambda admin: lag(admin, "shipping-2", ORDERS)) == 0
    page.goto(f"{shop.url}groups/shipping-2")
    confirm(preview(page, "group.delete"), "shipping-2")
    assert "shipping-2" not in shop.do(lambda admin: admin.group_configs("broker-a"))


def test_a_message_is_sent_again_and_consumed_again(window: Windows, shop: Shop) -> None:
    path = f"messages/{shop.sent[5]}?topic={ORDERS}"
    page = window(may_change=True).go(path)
    before = shop.do(lambda admin: stored(admin, ORDERS))
    confirm(preview(page, "message.resend"))
    assert shop.do(lambda admin: stored(admin, ORDERS)) == before + 1
    leave(page)
    row = page.locator("tr", has_text=BILLING).filter(has=page.locator("form[data-action='message.consume']"))
    row.get_by_role("button").click()
    dialog = page.locator("dialog#dialog")
    expect(dialog.get_by_text("Preview")).to_be_visible(timeout=SOON)
    confirm(dialog)
    expect(dialog).to_contain_text(re.compile("SUCCESS", re.I))


def test_dead_letters_are_sent_again_one_some_and_a_range(window: Windows, shop: Shop) -> None:
    page = window(may_change=True).go(f"dlq/{SHIPPING}")

    def retried() -> int:
        return int(shop.do(lambda admin: stored(admin, f"%RETRY%{SHIPPING}")))

    before = retried()
    boxes = page.get_by_role("checkbox")
    boxes.nth(0).check()
    confirm(preview(page, "dlq.resend"))
    assert retried() == before + 1
    leave(page)
    for at in (1, 2):
        boxes.nth(at).check()
    confirm(preview(page, "dlq.resend"), SHIPPING)
    assert retried() == before + 3
    leave(page)
    page.locator("summary", has_text="Send a range again").click()
    form = page.locator("details form[data-action='dlq.resend']")
    form.locator("[name=queue]").fill("broker-a/0")
    form.locator("[name=from_offset]").fill("3")
    form.locator("[name=to_offset]").fill("4")
    form.get_by_role("button").click()
    dialog = page.locator("dialog#dialog")
    expect(dialog.get_by_text("Preview")).to_be_visible(timeout=SOON)
    confirm(dialog, SHIPPING)
    assert retried() == before + 5


def test_a_timer_is_recalled(window: Windows, shop: Shop) -> None:
    page = window(may_change=True).go("waiting")
    confirm(preview(page, "timer.recall"), "reminders")
    leave(page)
    expect(page.locator("form[data-action='timer.recall']")).to_have_count(0, timeout=SOON)


def test_a_half_message_that_was_given_up_is_asked_about_again(window: Windows, shop: Shop) -> None:
    page = window(may_change=True).go("waiting")
    expect(page.get_by_text("given up", exact=True).first).to_be_visible(timeout=SOON)
    confirm(preview(page, "half.check"))


def test_a_broker_is_closed_opened_changed_and_cleaned(window: Windows, shop: Shop) -> None:
    page = window(may_change=True).go("brokers/broker-a?q=longPolling")

    async def value(admin: Admin) -> str:
        return (await admin.broker_config("broker-a"))["longPollingEnable"]

    async def can_write(admin: Admin) -> bool:
        return all(queue.perm & 2 for queue in (await admin.topic_route(ORDERS)).queue_datas)

    confirm(preview(page, "broker.permission", write="false"), "broker-a")
    leave(page)
    assert not shop.do(can_write)
    confirm(preview(page, "broker.permission", write="true"), "broker-a")
    leave(page)
    assert shop.do(can_write)
    before = shop.do(value)
    changed = "false" if before == "true" else "true"
    confirm(preview(page, "broker.option", name="longPollingEnable", value=changed))
    assert shop.do(value) == changed
    leave(page)
    confirm(preview(page, "broker.option", name="longPollingEnable", value=before))
    page.goto(f"{shop.url}store")
    confirm(preview(page, "store.clean", what="unused_topics"), "broker-a")


def test_without_scripts_the_same_forms_ask_and_do(window: Windows, shop: Shop) -> None:
    page = window(may_change=True, java_script_enabled=False).go(f"topics/{ORDERS}?tab=messages")
    before = shop.do(lambda admin: stored(admin, ORDERS))
    page.locator("summary", has_text="Send a message").click()
    page.get_by_label("Body").fill("without script")
    page.get_by_role("button", name="Preview").click()
    assert "Preview: nothing has happened yet." in page.inner_text("main")
    assert shop.do(lambda admin: stored(admin, ORDERS)) == before
    page.get_by_role("button", name="Send").click()
    assert "Done: 1. Failed: 0." in page.inner_text("main")
    assert shop.do(lambda admin: stored(admin, ORDERS)) == before + 1
    page.get_by_role("link", name="Back").click()
    assert page.url == f"{shop.url}topics/{ORDERS}?tab=messages"


def test_what_the_cluster_refuses_is_said_in_the_dialog(window: Windows, shop: Shop) -> None:
    opened = window(may_change=True)
    page = opened.go("topics")
    page.locator("summary", has_text="Create a topic").click()
    form = page.locator("form[data-action='topic.create']")
    form.locator("[name=topic]").fill("no such/name<img>")
    form.get_by_role("button").click()
    alert = page.locator("dialog").get_by_role("alert")
    expect(alert).to_be_visible(timeout=SOON)
    expect(alert).to_contain_text("no such/name<img>")
    assert page.locator("dialog img").count() == 0
    opened.complaints.clear()  # the browser itself notes an answer of 400


def test_who_has_not_signed_in_sees_no_action_and_is_refused(window: Windows, shop: Shop) -> None:
    page = window().go(f"groups/{AUDIT}")
    assert page.locator("form[data-action]").count() == 0
    answer = page.request.post(f"{shop.url}api/actions/group.reset", data={"group": AUDIT, "topic": ORDERS})
    assert answer.status == 403
