"""Actions: a preview changes nothing, the deed is what the preview said, and each leaves a line behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flaremq import Admin, Message, Producer
from flaremq.client.scan.group_commits import GroupCommits
from tests.support.dashboard_lab import DashboardLab, dashboard_lab


async def _fill(lab: DashboardLab, topic: str, count: int) -> None:
    async with Producer(lab.broker.name_server, group="filling") as producer:
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number, tags="t", keys=[f"k{number}"]))


async def _commit(lab: DashboardLab, group: str, topic: str) -> None:
    """The group has consumed everything."""
    async with Admin(lab.broker.name_server) as admin, GroupCommits(lab.broker.name_server, group) as commits:
        offsets: dict[str, dict[int, int]] = {}
        for queue, end in (await admin.topic_status(topic)).items():
            offsets.setdefault(queue.broker_name, {})[queue.queue_id] = end.max_offset
        await commits.commit({topic: offsets})


def test_a_topic_that_was_made_elsewhere_a_moment_ago_exists_already(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            assert (await lab.browser.sign_in()).status == 303
            await admin.create_topic("fresh", read_queues=3, write_queues=3)
            again = await lab.browser.act("topic.create", topic="fresh")
            assert again.status == 400 and "exists already" in again.text
            assert (await admin.topic_config("fresh", lab.broker.address)).read_queue_nums == 3

    asyncio.run(run())


def test_a_topic_is_made_changed_and_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            assert (await browser.sign_in()).status == 303
            preview = (await browser.act("topic.create", dry_run=True, topic="fresh", read_queues=3)).json()
            assert preview["done"] == 0 and preview["rows"][0]["after"]["read_queues"] == 3
            assert "fresh" not in await admin.list_topics()
            made = (await browser.act("topic.create", topic="fresh", read_queues=3, write_queues=3)).json()
            assert (made["done"], made["failed"]) == (1, [])
            assert (await admin.topic_config("fresh", lab.broker.address)).read_queue_nums == 3
            again = await browser.act("topic.create", topic="fresh")
            assert again.status == 400 and "exists already" in again.text
            shrunk = await browser.act("topic.update", topic="fresh", read_queues=1)
            assert shrunk.status == 400 and "confirm" in shrunk.text
            shrunk = await browser.act("topic.update", topic="fresh", read_queues=1, confirm="fresh")
            assert shrunk.json()["done"] == 1
            config = await admin.topic_config("fresh", lab.broker.address)
            assert (config.read_queue_nums, config.write_queue_nums) == (1, 3)
            assert (await browser.act("topic.delete", topic="fresh", confirm="frech")).status == 400
            assert "fresh" in await admin.list_topics()
            assert (await browser.act("topic.delete", topic="fresh", confirm="fresh")).json()["done"] == 1
            assert "fresh" not in await admin.list_topics()

    asyncio.run(run())


def test_a_reset_says_what_is_read_again_and_does_just_that(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            await _fill(lab, "orders", 40)
            await _commit(lab, "billing", "orders")
            await lab.look()
            await browser.sign_in()
            wish = {"group": "billing", "topic": "orders", "to": "earliest"}
            preview = (await browser.act("group.reset", dry_run=True, **wish)).json()
            assert preview["effects"] == [{"code": "read_again", "args": {"messages": 40}}]
            assert preview["confirm"] == "billing" and preview["after"]["lag"] == 40
            assert sum(row["read_again"] for row in preview["rows"]) == 40
            stats = await admin.group_progress("billing", topic="orders")
            assert all(entry.consumer_offset == entry.broker_offset for entry in stats.offset_table.values())
            assert (await browser.act("group.reset", **wish)).status == 400
            done = (await browser.act("group.reset", confirm="billing", **wish)).json()
            assert done["failed"] == [] and done["rows"] == preview["rows"]
            stats = await admin.group_progress("billing", topic="orders")
            assert [entry.consumer_offset for entry in stats.offset_table.values()] == [0] * len(done["rows"])
            skipped = (await browser.act("group.skip", confirm="billing", group="billing", topic="orders")).json()
            assert skipped["effects"] == [{"code": "skipped", "args": {"messages": 40}}]
            line = [line for line in lab.audit_lines() if "group.reset" in line["what"]][-1]
            assert line["user"] == "token" and line["result"] == 0 and '"to":"earliest"' in line["what"]

    asyncio.run(run())


def test_offsets_are_shifted_copied_and_set_in_one_queue(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            await _fill(lab, "orders", 40)
            await _commit(lab, "billing", "orders")
            await admin.create_group("other")
            await lab.look()
            await browser.sign_in()
            await browser.act("group.reset", group="billing", topic="orders", to="shift", value=-2, confirm="billing")
            stats = (await admin.group_progress("billing", topic="orders")).offset_table
            assert {entry.broker_offset - entry.consumer_offset for entry in stats.values()} == {2}
            copied = await browser.act("group.copy", group="billing", target="other", topic="orders", confirm="other")
            assert copied.json()["failed"] == []
            same = (await admin.group_progress("other", topic="orders")).offset_table
            assert {q: e.consumer_offset for q, e in same.items()} == {q: e.consumer_offset for q, e in stats.items()}
            queue = f"{lab.broker.broker.options.broker_name}/1"
            wish = {"group": "other", "topic": "orders", "to": "offset", "value": 1, "queue": queue}
            one = (await browser.act("group.reset", confirm="other", **wish)).json()
            assert [row["target"] for row in one["rows"]] == [1]

    asyncio.run(run())


def test_a_message_is_sent_and_sent_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            await admin.create_topic("orders", read_queues=2, write_queues=2)
            await lab.look()
            await browser.sign_in()
            wish = {"topic": "orders", "body": "hello", "tags": "a", "keys": "k1 k2", "properties": "region=eu"}
            assert (await browser.act("message.send", dry_run=True, **wish)).json()["done"] == 0
            sent = (await browser.act("message.send", **wish)).json()["rows"][0]
            found = await admin.get_message("orders", sent["message_id"])
            assert (found.body, found.tags, found.keys) == (b"hello", "a", ["k1", "k2"])
            assert found.properties["region"] == "eu"
            copy = (await browser.act("message.resend", topic="orders", id=sent["message_id"])).json()["rows"][0]
            assert copy["message_id"] != sent["message_id"]
            assert (await admin.get_message("orders", copy["message_id"])).body == b"hello"
            assert not any("hello" in line["what"] for line in lab.audit_lines())
            assert (await browser.act("message.send", topic="nowhere", body="x")).status == 404

    asyncio.run(run())


def test_options_are_changed_from_a_list_of_those_that_may_be(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser, name = lab.browser, lab.broker.broker.options.broker_name
            await browser.sign_in()
            done = (await browser.act("broker.option", broker=name, name="traceOn", value="false")).json()
            assert done["rows"] == [{"broker": name, "before": "true", "after": "false"}]
            assert (await admin.broker_config(name))["traceOn"] == "false"
            for option, value in (("storePathRootDir", "/tmp"), ("aclEnable", "false"), ("traceOn", "maybe")):
                refused = await browser.act("broker.option", broker=name, name=option, value=value)
                assert refused.status == 400, (option, refused.text)
            wiped = await browser.act("broker.permission", broker=name, write=False, confirm=name)
            assert wiped.json()["done"] == 1
            cleaned = await browser.act("store.clean", broker=name, what="expired_log", confirm=name)
            assert cleaned.json()["failed"] == []

    asyncio.run(run())


def test_forms_without_scripts_preview_and_confirm(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            await browser.sign_in()
            preview = await browser.post_form("/actions/topic.create", topic="formed", read_queues="2")
            assert preview.status == 200 and "formed" in preview.text
            assert "formed" not in await admin.list_topics()
            done = await browser.post_form("/actions/topic.create", topic="formed", read_queues="2", dry_run="false")
            assert done.status == 200
            assert "formed" in await admin.list_topics()
            wrong = await browser.post_form("/actions/topic.delete", topic="formed", dry_run="false", confirm="no")
            assert wrong.status == 400

    asyncio.run(run())
