"""Every page before a live broker with traffic: the numbers are those of the admin calls."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from flaremq import Admin, Consumer, Message, Producer
from flaremq.client.scan.group_commits import GroupCommits
from flaremq.message.topics import dlq_topic
from flaremq.protocol.codes import VERSION_TEXT
from tests.support.dashboard_lab import DashboardLab, dashboard_lab

PAGES = (
    "overview brokers topics groups clients messages trace dlq waiting store spark access search topics/orders "
    "topics/orders?tab=queues groups/billing groups/billing?tab=members messages?topic=orders dlq/billing login"
)


async def _fill(lab: DashboardLab, topic: str = "orders", count: int = 40, **message: Any) -> None:
    async with Producer(lab.broker.name_server, group="filling") as producer:
        for number in range(count):
            await producer.send(Message(topic, b'{"n": %d}' % number, keys=[f"k{number}"], **message))


async def _commit(lab: DashboardLab, group: str, topic: str, behind: int = 0) -> None:
    async with Admin(lab.broker.name_server) as admin, GroupCommits(lab.broker.name_server, group) as commits:
        offsets: dict[str, dict[int, int]] = {}
        for queue, end in (await admin.topic_status(topic)).items():
            offsets.setdefault(queue.broker_name, {})[queue.queue_id] = max(0, end.max_offset - behind)
        await commits.commit({topic: offsets})


def test_lists_and_details_tell_what_the_admin_calls_tell(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            await _fill(lab, tags="paid")
            await _commit(lab, "billing", "orders", behind=3)
            await lab.look()
            status = await admin.topic_status("orders")
            (row,) = (await browser.json("/api/topics"))["items"]
            assert row["messages"] == sum(end.max_offset - end.min_offset for end in status.values()) == 40
            assert row["newest_ms"] == max(end.last_update_timestamp for end in status.values())
            assert (row["groups"], row["lagging"], row["perm_text"]) == (1, 1, "RW")
            topic = await browser.json("/api/topics/orders")
            told = {(one["broker"], one["queue"]): (one["min_offset"], one["max_offset"]) for one in topic["queues"]}
            assert told == {(q.broker_name, q.queue_id): (e.min_offset, e.max_offset) for q, e in status.items()}
            stats = await admin.group_progress("billing")
            lag = sum(entry.broker_offset - entry.consumer_offset for entry in stats.offset_table.values())
            (group,) = (await browser.json("/api/groups"))["items"]
            assert group["lag"] == lag == 12 and group["members"] == 0
            assert row["lag"] == lag and topic["groups"][0]["lag"] == lag
            detail = await browser.json("/api/groups/billing")
            places = {one["id"]: (one["committed"], one["max_offset"]) for one in detail["queues"]}
            assert places == {
                f"{q.topic}/{q.broker_name}/{q.queue_id}": (e.consumer_offset, e.broker_offset)
                for q, e in stats.offset_table.items()
            }
            (by_topic,) = detail["topics"]
            assert (by_topic["topic"], by_topic["lag"], by_topic["in_flight"]) == ("orders", 12, 0)
            assert by_topic["delay_ms"] == max(one["delay_ms"] for one in detail["queues"]) > 0
            assert (await browser.json("/api/topics/orders/queues"))["total"] == len(status)
            assert (await browser.json("/api/groups/billing/queues", sort="-lag"))["items"][0]["lag"] == 3
            totals = (await browser.json("/api/overview"))["totals"]
            assert (totals["topics"], totals["groups"], totals["lag"]) == (1, 1, 12)

    asyncio.run(run())


def test_what_was_made_a_moment_ago_is_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            await lab.freeze()
            await admin.create_topic("fresh")
            lab.service.context.state.tables_ms = 0
            assert (await lab.browser.json("/api/topics/fresh"))["topic"]["messages"] == 0
            await admin.create_group("new")
            lab.service.context.state.tables_ms = 0
            assert (await lab.browser.json("/api/groups/new"))["group"]["group"] == "new"

    asyncio.run(run())


def test_brokers_and_stores_tell_what_the_broker_tells(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            await _fill(lab)
            await lab.look()
            name = lab.broker.broker.options.broker_name
            runtime = await admin.broker_status(name)
            (row,) = (await lab.browser.json("/api/brokers"))["items"]
            assert (row["name"], row["up"], row["writable"]) == (name, True, True)
            assert row["version"] == runtime["brokerVersionDesc"]
            broker = await lab.browser.json(f"/api/brokers/{name}")
            assert {one["name"] for one in broker["runtime"]} == runtime.keys()
            config = await admin.broker_config(name)
            found = await lab.browser.json(f"/api/brokers/{name}/options", limit=500)
            assert {one["name"]: one["value"] for one in found["items"]}.keys() == config.keys()
            assert [one["name"] for one in found["items"] if not one["doc"] or one["default"] is None] == []
            changed = await lab.browser.json(f"/api/brokers/{name}/options", changed=1)
            assert "mappedFileSizeCommitLog" in {one["name"] for one in changed["items"]}
            (store,) = (await lab.browser.json("/api/store"))["brokers"]
            assert store["max_offset"] == int(runtime["commitLogMaxOffset"])
            assert store["file_bytes"] == int(config["mappedFileSizeCommitLog"])
            assert store["files"][0]["used_bytes"] == store["bytes"] and store["files_total"] == 1
            assert store["recovery"] == {
                "clean": True, "seconds": float(runtime["lastRecoverySeconds"]), "checked_bytes": 0,
                "truncated_bytes": 0, "damaged_ranges": 0,
            }  # fmt: skip
            assert store["recovery_now_bytes"] == store["max_offset"] - int(runtime["recoveryStartOffset"])
            assert (store["damaged_reads"], store["repaired_units"]) == (0, 0)

    asyncio.run(run())


def test_messages_are_found_in_every_way(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            await _fill(lab, count=60, tags="paid", properties={"region": "eu"})
            await _fill(lab, count=10, tags="late")
            newest = await browser.json("/api/messages", topic="orders", limit=5)
            times = [row["stored_ms"] for row in newest["items"]]
            assert len(times) == 5 and times == sorted(times, reverse=True) and not newest["complete"]
            seen = {row["offset_id"] for row in newest["items"]}
            cursor = newest["next"]
            while cursor:
                page = await browser.json("/api/messages", topic="orders", limit=20, cursor=cursor)
                ids = {row["offset_id"] for row in page["items"]}
                assert not ids & seen
                seen |= ids
                cursor = page["next"]
            assert len(seen) == 70
            oldest = await browser.json("/api/messages", **{"topic": "orders", "from": "earliest", "limit": 200})
            assert len(oldest["items"]) == 70 and oldest["complete"] and oldest["scanned"] == 70
            for query, count in (
                ({"from": "key:k3"}, 2),
                ({"tag": "late"}, 10),
                ({"contains": '"n": 59}'}, 1),
                ({"property": "region:eu"}, 60),
                ({"from": "offset:0", "queue": "0"}, None),
            ):
                found = await browser.json("/api/messages", topic="orders", limit=200, **query)
                assert count in (None, len(found["items"])), query
            message_id = newest["items"][0]["message_id"]
            (by_id,) = (await browser.json("/api/messages", **{"topic": "orders", "from": f"id:{message_id}"}))["items"]
            assert by_id["message_id"] == message_id
            stored = await admin.get_message("orders", message_id)
            detail = await browser.json(f"/api/messages/{message_id}", topic="orders")
            assert detail["message"]["physical_offset"] == stored.physical_offset and detail["message"]["crc_ok"]
            assert detail["body"]["as"] == "json" and json.loads(detail["body"]["content"]) == json.loads(stored.body)
            raw = await browser.get(f"/api/messages/{message_id}/body?topic=orders&as=raw")
            assert raw.body == stored.body and raw.header("content-type") == "application/octet-stream"
            assert (raw.header("content-disposition") or "").startswith("attachment")
            offset_id = newest["items"][0]["offset_id"]
            assert (await browser.json(f"/api/messages/{offset_id}"))["message"]["offset_id"] == offset_id
            await lab.look()
            found = await browser.json("/api/search", q=message_id)
            assert found["messages"][0]["message_id"] == message_id

    asyncio.run(run())


def test_an_id_that_holds_a_strange_address_makes_nobody_connect(tmp_path: Path) -> None:
    async def run() -> None:
        connected: list[Any] = []
        listener = await asyncio.start_server(lambda reader, writer: connected.append(writer), "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        strange = (b"\x7f\x00\x00\x01" + port.to_bytes(4, "big") + bytes(8)).hex().upper()
        async with listener, dashboard_lab(tmp_path) as lab:
            await lab.browser.sign_in()
            assert (await lab.browser.get(f"/api/messages/{strange}")).status == 404
            assert (await lab.browser.json("/api/search", q=strange))["messages"] == []
            checked = await lab.browser.act("half.check", id=strange)
            assert checked.json()["failed"]
            assert (await lab.browser.get(f"/api/brokers/127.0.0.1:{port}")).status == 404
            made = await lab.browser.act("topic.create", topic="x", broker=f"127.0.0.1:{port}")
            assert made.json().get("failed") or made.status != 200
            assert connected == []

    asyncio.run(run())


def test_members_and_what_they_tell(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            await _fill(lab)
            async with Consumer(lab.broker.name_server, group="billing", subscribe={"orders": "*"}) as consumer:
                await asyncio.wait_for(anext(aiter(consumer)), 10)
                await lab.look()
                group = await lab.browser.json("/api/groups/billing")
                (member,) = group["members"]
                assert group["group"]["online"] is True and group["group"]["kind"] == "push"
                assert {row["topic"] for row in group["subscriptions"]} == {"%RETRY%billing", "orders"}
                clients = await lab.browser.json("/api/clients", kind="consumer")
                assert {client["version"] for client in clients["items"]} == {VERSION_TEXT}
                assert [row["client_id"] for row in clients["items"]] == [member["client_id"]]
                running = (await lab.browser.json(f"/api/clients/{member['client_id']}/running"))["running"]
                assert running["error"] is None and "orders" in {row["topic"] for row in running["queues"]}

    asyncio.run(run())


def test_what_waits_is_counted_and_listed(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path, broker_options={"recallMessageEnable": True}) as lab:
            async with Producer(lab.broker.name_server, group="p") as producer:
                await producer.send_delayed(Message("later", b"level"), level=17)
                await producer.send_delayed(Message("later", b"timer", keys=["t1"]), seconds=3600)
            await lab.look()
            waiting = await lab.browser.json("/api/waiting")
            (level,) = [row for row in waiting["levels"] if row["waiting"]]
            assert (level["level"], level["delay_ms"], level["waiting"]) == (17, 3_600_000, 1)
            assert level["next_due_ms"] > waiting["as_of"]
            (timer,) = waiting["timers"]["items"]
            assert (timer["topic"], timer["keys"], timer["preview"]) == ("later", ["t1"], "timer")
            await lab.browser.sign_in()
            taken = await lab.browser.act("timer.recall", topic="later", recall=timer["recall"], confirm="later")
            assert taken.json()["failed"] == []
            assert (await lab.browser.json("/api/waiting"))["timers"]["items"] == []

    asyncio.run(run())


def test_dead_letters_are_listed_and_given_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            await _fill(lab, count=3)
            consumer = Consumer(lab.broker.name_server, group="billing", subscribe={"orders": "*"}, start_from="first")
            async with consumer:
                seen = 0
                async for message in consumer:
                    message.retry(delay_level=-1)
                    seen += 1
                    if seen == 3:
                        break
            await lab.look()
            (row,) = (await lab.browser.json("/api/dlq"))["items"]
            assert (row["group"], row["topic"], row["count"]) == ("billing", dlq_topic("billing"), 3)
            found = await lab.browser.json("/api/dlq/billing")
            assert {item["origin_topic"] for item in found["items"]} == {"orders"} and len(found["items"]) == 3
            await lab.browser.sign_in()
            ids = [item["offset_id"] for item in found["items"]][:2]
            done = (await lab.browser.act("dlq.resend", group="billing", ids=ids, confirm="billing")).json()
            assert (done["done"], done["failed"]) == (2, [])
            assert {one["state"] for one in done["rows"]} == {"SEND_OK"}

    asyncio.run(run())


def test_every_page_can_be_read_without_scripts_in_both_languages(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            await _fill(lab)
            await _commit(lab, "billing", "orders")
            await lab.look()
            client = (await lab.browser.json("/api/brokers"))["items"][0]["name"]
            for page in [*PAGES.split(), f"brokers/{client}"]:
                for lang in ("en", "zh"):
                    reply = await lab.browser.get(f"/{page}{'&' if '?' in page else '?'}lang={lang}")
                    assert reply.status == 200, (page, reply.status)
                    assert f'lang="{"zh-CN" if lang == "zh" else "en"}"' in reply.text

    asyncio.run(run())


def test_lists_leave_as_csv_without_formulas(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            for topic in ("-cmd", "plain"):
                await admin.create_topic(topic)
            await lab.look()
            reply = await lab.browser.get("/api/topics?format=csv")
            rows = list(csv.DictReader(io.StringIO(reply.text)))
            assert [row["topic"] for row in rows] == ["'-cmd", "plain"]
            assert (reply.header("content-disposition") or "").startswith("attachment")
            assert (await lab.browser.get("/api/overview?format=csv")).status == 400

    asyncio.run(run())


def test_every_table_of_a_page_leaves_as_csv(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            await admin.create_topic("orders", attributes={"message.type": "FIFO"})
            await lab.look()
            found = {}
            for page in [
                *PAGES.split(),
                "topics/orders?tab=config",
                f"brokers/{lab.broker.broker.options.broker_name}",
            ]:
                html = (await lab.browser.get(f"/{page}")).text
                assert html.count(">CSV<") == html.count(">JSON<"), page
                for address in re.findall(r'href="([^"]*format=csv[^"]*)"', html):
                    place = unquote(address.replace("&amp;", "&")).lstrip("./")
                    found[place] = await lab.browser.get("/" + address.replace("&amp;", "&").lstrip("./"))
            assert {place: reply.text for place, reply in found.items() if reply.status != 200} == {}
            assert len(found) > 15
            (files,) = [reply.text for place, reply in found.items() if place.endswith("/files")]
            (row,) = csv.DictReader(io.StringIO(files))
            assert row["name"] == "0" * 20 and row["from_offset"] == "0"
            (config,) = [reply.text for place, reply in found.items() if place.endswith("/configs")]
            assert next(csv.DictReader(io.StringIO(config)))["attributes"] == "message.type=FIFO"
            for place in ("files", "/nothing", "/as_of", "/brokers/nobody/files"):
                reply = await lab.browser.get(f"/api/store?format=csv&list={place}")
                assert reply.status == 400 and "no list" in reply.text, place

    asyncio.run(run())


def test_numbers_that_scripts_would_round_are_texts() -> None:
    from flaremq.dashboard.app.answers import to_json

    assert json.loads(to_json({"a": 2**53, "b": 2**53 - 1, "c": [-(2**60)]})) == {
        "a": str(2**53),
        "b": 2**53 - 1,
        "c": [str(-(2**60))],
    }
