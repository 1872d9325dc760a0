"""Streams: a snapshot, then what changed; all who watch a page share one look; who does not read is dropped."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flaremq import Admin, Message, Producer
from flaremq.dashboard.app.answers import to_json
from flaremq.dashboard.live import hub as hubs
from flaremq.dashboard.live.delta import delta
from flaremq.dashboard.live.hub import Hub, Stream
from tests.support.dashboard_lab import Browser, dashboard_lab


def apply(value: Any, change: dict[str, Any], appended: dict[str, list[list[Any]]]) -> Any:
    """What a script does with a change."""
    root = {"": copy.deepcopy(value)}

    def place(path: str) -> tuple[Any, Any]:
        target: Any = root
        key: Any = ""
        for part in path.split("/")[1:]:
            target = target[key]
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list):
                key = next(at for at, row in enumerate(target) if str(row["id"]) == name)
            else:
                key = name
        return target, key

    for path, points in appended.items():
        target, key = place(path)
        series = target[key]
        for at, point in points:
            index = (at - series["from_ms"]) // series["step_ms"]
            series["points"] += [None] * (index - len(series["points"]))
            series["points"][index:] = [point]
    for path, new in change.items():
        target, key = place(path)
        target[key] = new
    return root[""]


_names = st.sampled_from(["a", "b/c", "~d", "é"])
_leaves = st.none() | st.integers(-3, 3) | st.text(max_size=3)
_rows = st.lists(st.fixed_dictionaries({"id": _names, "x": _leaves}), max_size=4, unique_by=lambda row: row["id"])
_pages = st.fixed_dictionaries(
    {"n": _leaves, "items": _rows, "more": st.dictionaries(_names, _leaves | _rows, max_size=3)}
)


@given(_pages, _pages)
def test_a_change_makes_the_new_page_of_the_old_one(old: Any, new: Any) -> None:
    made = apply(old, *delta(old, new))
    for gone in old["more"].keys() - new["more"].keys():
        assert made["more"].pop(gone) is None
    assert made == new


def test_series_grow_by_their_new_points() -> None:
    old = {"s": {"step_ms": 1000, "from_ms": 5000, "points": [1, 2, 3]}}
    new = {"s": {"step_ms": 1000, "from_ms": 6000, "points": [2, 4, None, 5]}}
    assert delta(old, new) == ({}, {"/s": [[7000, 4], [8000, None], [9000, 5]]})
    assert delta(old, old) == ({}, {})
    fresh = {"s": {"step_ms": 1000, "from_ms": 90_000, "points": [1]}}
    assert delta(old, fresh) == ({"/s": fresh["s"]}, {})


def test_a_stream_begins_with_the_page_and_tells_what_a_send_changed(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Producer(lab.broker.name_server, group="p") as producer:
            await producer.send(Message("orders", b"1"))
            await lab.look()
            async with lab.browser.stream("topics") as events:
                name, page = await events.next()
                assert name == "snapshot" and page["items"][0]["messages"] == 1
                await producer.send(Message("orders", b"2"))
                while page["items"][0]["messages"] != 2:
                    name, change = await asyncio.wait_for(events.next(), 10)
                    assert name == "change"
                    page = apply(page, change["set"], change.get("append", {}))
                page = apply(page, {}, {})
                assert (await lab.browser.json("/api/topics"))["items"][0]["messages"] == 2

    asyncio.run(run())


def test_the_tail_of_a_topic_shows_messages_as_they_come(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Producer(lab.broker.name_server, group="p") as producer:
            await producer.send(Message("orders", b"before"))
            async with lab.browser.stream("messages", topic="orders") as events:
                assert await events.next() == ("messages", {"items": [], "dropped": 0})
                await producer.send(Message("orders", b"<img src=x onerror=alert(1)>"))
                name, value = await asyncio.wait_for(events.next(), 10)
                assert name == "messages"
                assert [row["preview"] for row in value["items"]] == ["<img src=x onerror=alert(1)>"]

    asyncio.run(run())


def test_two_hundred_streams_of_a_page_cost_one_look() -> None:
    looks = 0

    async def look() -> dict[str, Any]:
        nonlocal looks
        looks += 1
        return {"as_of": looks, "n": looks}

    async def run() -> None:
        hub = Hub(to_json)
        async with asyncio.timeout(20):
            entered = [hub.subscribed("page", look, 0.05) for _ in range(200)]
            streams = [await one.__aenter__() for one in entered]
            assert looks == 1 and hub.stream_count == 200
            first = [await anext(aiter(stream.events())) for stream in streams[:2]]
            assert first[0] is first[1]  # the same bytes, not equal ones
            for one in entered:
                await one.__aexit__(None, None, None)
            assert hub.stream_count == 0

    asyncio.run(run())


def test_who_does_not_read_is_dropped_and_the_others_go_on() -> None:
    async def run() -> None:
        fast, slow = Stream(), Stream()
        read = 0
        events = fast.events()
        for number in range(100):
            for stream in (fast, slow):
                stream.put(b"%d" % number)
            assert await anext(events) == b"%d" % number
            read += 1
        assert read == 100 and slow.dropped.is_set() and not fast.dropped.is_set()
        assert b'"slow"' in slow.farewell

    asyncio.run(run())


def test_a_reader_that_leaves_while_it_waits_leaves_nothing_behind() -> None:
    async def run() -> None:
        before = asyncio.all_tasks()
        reading = asyncio.create_task(anext(aiter(Stream().events())))
        while len(asyncio.all_tasks() - before) < 3:  # the reader, what it waits for, and the end
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left, timeout=10)
            assert all(task.done() for task in left)

    asyncio.run(run())


def test_a_stalled_reader_costs_its_own_connection_alone(tmp_path: Path) -> None:
    """One browser stops reading; its stream is cut off while another one goes on."""

    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            hub = lab.service.hub
            _, writer = await lab.browser.send("GET", "/api/live?page=overview")
            async with asyncio.timeout(20):
                while not hub.streams:
                    await asyncio.sleep(0.01)
                (stalled,) = hub.streams
                async with lab.browser.stream("overview") as events:
                    await events.next()
                    while stalled in hub.streams:  # more than sockets and queues hold
                        stalled.put(b"x" * 1_000_000)
                        await asyncio.sleep(0.01)
                    assert stalled.dropped.is_set() and hub.stream_count == 1
                    assert (await events.next())[0] == "change"
            writer.close()
            assert (await lab.browser.get("/api/overview")).status == 200

    asyncio.run(run())


def test_streams_are_bounded(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(hubs, "STREAMS_MAX", 2)

    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            async with lab.browser.stream("overview") as one, lab.browser.stream("brokers") as two:
                await one.next()
                await two.next()
                assert (await lab.browser.get("/api/live?page=overview")).status == 429
            async with asyncio.timeout(20):
                while (await lab.browser.get("/api/live?page=nowhere")).status == 429:
                    await asyncio.sleep(0.02)
            assert (await lab.browser.get("/api/live?page=nowhere")).status == 400

    asyncio.run(run())


def test_stopping_says_goodbye_to_streams(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, lab.browser.stream("overview") as events:
            await events.next()
            stopping = asyncio.create_task(lab.service.stop())
            async with asyncio.timeout(10):
                while (found := await events.next())[0] != "bye":
                    pass
            assert found[1] == {"code": "stopping"}
            await stopping

    asyncio.run(run())


def test_a_stream_ends_with_the_session(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            await lab.browser.sign_in()
            async with lab.browser.stream("overview") as events:
                await events.next()
                await Browser(lab.browser.url, dict(lab.browser.cookies)).post_form("/logout")
                async with asyncio.timeout(10):
                    while (found := await events.next())[0] != "bye":
                        pass
                assert found[1] == {"code": "signed_out"}

    asyncio.run(run())


def test_a_dashboard_starts_without_a_cluster_and_finds_it_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server):
            state = lab.service.context.state
            await lab.broker._broker.stop()  # type: ignore[union-attr]
            await lab.look()
            page = await lab.browser.json("/api/overview")
            assert page["cluster"]["brokers_up"] == 0 and page["brokers"][0]["up"] is False
            assert state.failures and (await lab.browser.get("/")).status == 200

    asyncio.run(run())
