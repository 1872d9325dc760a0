"""The dashboard before a real RocketMQ: numbers are there, and what is not told says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flaremq import Admin, Consumer, Message, Producer
from flaremq.client.scan.group_commits import GroupCommits
from flaremq.dashboard.options import DashboardOptions
from flaremq.dashboard.service import DashboardService
from tests.interop.wire import servers
from tests.interop.wire.selection import require
from tests.support.dashboard_lab import Browser, token_file

pytestmark = [pytest.mark.interop, pytest.mark.slow]
_WAIT = 60.0


async def _until(ask: Callable[[], Awaitable[Any]], is_right: Callable[[Any], bool]) -> Any:
    """The first answer that is right: brokers register topics and offsets when they come round to it."""
    found: Any = None
    try:
        async with asyncio.timeout(_WAIT):
            while not is_right(found := await ask()):
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"never right: {found}") from None
    return found


@pytest.mark.parametrize("target", ["rocketmq-4.9.7", "rocketmq-5.5.0"])
def test_pages_and_actions_before_a_real_broker(target: str, tmp_path: Path) -> None:
    require(servers.why_not(target))

    async def run(name_server: str) -> None:
        options = DashboardOptions(
            name_servers=name_server,
            listen="127.0.0.1:0",
            audit_folder=str(tmp_path),
            token_file=token_file(tmp_path),
        )
        service = DashboardService(options)
        await service.start()
        try:
            await _look(Browser(service.url), name_server, target)
        finally:
            await service.stop()

    with servers.started(target, tmp_path) as started:
        asyncio.run(run(started.name_server))


async def _look(browser: Browser, name_server: str, target: str) -> None:
    async with Producer(name_server, group="p") as producer, Admin(name_server) as admin:
        await browser.sign_in()
        made = await browser.act("topic.create", topic="orders", read_queues=4, write_queues=4)
        assert made.json()["failed"] == [], made.text
        await _until(lambda: browser.get("/api/topics/orders"), lambda reply: reply.status == 200)
        for number in range(20):
            await producer.send(Message("orders", b'{"n": %d}' % number, tags="paid", keys=[f"k{number}"]))
        topic = await _until(lambda: browser.json("/api/topics/orders"), lambda found: found["topic"]["messages"] == 20)
        assert topic["topic"]["perm_text"] == "RW" and topic["topic"]["newest_ms"]
        (broker,) = (await browser.json("/api/brokers"))["items"]
        assert broker["up"] and broker["version"].startswith("V4_9" if "4.9" in target else "V5_5")
        assert broker["disk_used_ratio"] is not None and broker["uptime_ms"] is not None
        found = await browser.json("/api/messages", topic="orders", limit=200)
        assert len(found["items"]) == 20 and found["complete"]
        (by_key,) = (await browser.json("/api/messages", **{"topic": "orders", "from": "key:k7"}))["items"]
        detail = await browser.json(f"/api/messages/{by_key['message_id']}", topic="orders")
        assert detail["body"]["content"] == '{\n  "n": 7\n}' and detail["message"]["crc_ok"]
        await _groups(browser, admin, name_server)
        for page in ("", "topics", "groups", "clients", "waiting", "store", "dlq", "spark", "access", "topics/orders"):
            assert (await browser.get(f"/{page}")).status == 200, page
        clients = await _until(lambda: browser.json("/api/clients", kind="producer"), lambda page: page["total"] > 0)
        assert "producers" not in clients["missing"]
        sent = await browser.act("message.send", topic="orders", body="from the dashboard")
        assert sent.json()["failed"] == [], sent.text
        assert (await browser.act("topic.delete", topic="orders", confirm="orders")).json()["failed"] == []


async def _groups(browser: Browser, admin: Admin, name_server: str) -> None:
    async with GroupCommits(name_server, "job") as commits:
        offsets: dict[str, dict[int, int]] = {}
        for queue, end in (await admin.topic_status("orders")).items():
            offsets.setdefault(queue.broker_name, {})[queue.queue_id] = end.max_offset - 1
        await commits.commit({"orders": offsets})
    group = await _until(lambda: browser.json("/api/groups", q="job"), lambda page: _lag(page) == 4)
    assert group["items"][0]["online"] in (False, None)
    wish = {"group": "job", "topic": "orders", "to": "earliest"}
    preview = (await browser.act("group.reset", dry_run=True, **wish)).json()
    assert preview["effects"] == [{"code": "read_again", "args": {"messages": 16}}]
    await _until(lambda: browser.json("/api/groups/job"), lambda page: page["group"]["online"] is False)
    done = (await browser.act("group.reset", confirm="job", **wish)).json()
    assert done["failed"] == [], done
    stats = (await admin.group_progress("job", topic="orders")).offset_table
    assert {entry.consumer_offset for entry in stats.values()} == {0}
    async with Consumer(name_server, group="live", subscribe={"orders": "*"}) as consumer:
        await asyncio.wait_for(anext(aiter(consumer)), _WAIT)
        await _until(lambda: browser.get("/api/groups/live"), lambda reply: reply.status == 200)
        page = await _until(lambda: browser.json("/api/groups/live"), lambda found: bool(found["members"]))
        (member,) = page["members"]
        running = (await browser.json(f"/api/clients/{member['client_id']}/running"))["running"]
        assert running["error"] is None and running["queues"]


def _lag(page: Any) -> int | None:
    return page["items"][0]["lag"] if page["items"] else None
