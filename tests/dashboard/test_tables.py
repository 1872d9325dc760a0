"""Tables of the lakehouse on the Spark page: what their newest commits hold, how far they are behind."""

from __future__ import annotations

import asyncio
import csv
import io
import re
import threading
from pathlib import Path

import pytest

from flaremq import Message, Producer
from flaremq.dashboard.options import DashboardOptions
from flaremq.dashboard.questions import tables
from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.table import table
from flaremq.pipeline.tables.model.target import parse_target
from tests.support.dashboard_lab import dashboard_lab

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


def test_tables_are_shown_with_their_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_SECONDS", 0.0)
    delta, lake = f"delta:{tmp_path}/delta/orders", "iceberg:lake.sales.{topic}"
    named = (delta, lake, f"delta:{tmp_path}/nothing")
    warehouse = str(tmp_path / "lake")

    async def run() -> None:
        async with dashboard_lab(tmp_path, tables=named, warehouse=warehouse) as lab:
            server = lab.broker.name_server
            async with Producer(server, group="filling") as producer:
                for topic, count in (("orders", 30), ("clicks", 7)):
                    for number in range(count):
                        await producer.send(Message(topic, b"%d" % number))
                for target in (parse_target(delta), parse_target(lake, warehouse=warehouse)):
                    options = {"nameServer": server, "topic": "orders"}
                    await asyncio.to_thread(table, None, options, target.for_topic("orders"))
                for _ in range(4):
                    await producer.send(Message("orders", b"late"))
            await lab.look()
            await lab.browser.json("/api/spark")  # from here on the ends of these topics are read first
            await lab.look()
            page = (await lab.browser.json("/api/spark"))["tables"]
            rows = {row["table"]: row for row in page["items"]}
            assert page["configured"] and set(rows) == {delta, "iceberg:lake.sales.orders", named[2]}
            for name in (delta, "iceberg:lake.sales.orders"):
                row = rows[name]
                assert (row["topics"], row["messages"], row["lag"], row["error"]) == (["orders"], 30, 4, None)
                assert row["files"] >= 1 and row["bytes"] > 0 and row["version"]
            assert rows[named[2]]["error"] == f"there is no table {named[2]}" and rows[named[2]]["lag"] is None
            html = (await lab.browser.get("/spark")).text
            assert delta in html and "there is no table" in html
            (address,) = re.findall(r'href="([^"]*format=csv&amp;list=%2Ftables[^"]*)"', html)
            text = (await lab.browser.get("/" + address.replace("&amp;", "&").lstrip("./"))).text
            assert [row["lag"] for row in csv.DictReader(io.StringIO(text))] == ["4", "4", ""]

    asyncio.run(run())


def test_a_catalog_that_does_not_answer_keeps_no_page_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PATIENCE_SECONDS", 0.05)
    go_on = threading.Event()

    def stuck(*_: object) -> None:
        go_on.wait(60)
        raise LookupError("the catalog has <b>moved</b>")

    monkeypatch.setattr("flaremq.pipeline.tables.open.find_table", stuck)

    async def run() -> None:
        async with dashboard_lab(tmp_path, tables=("delta:/lake/orders",)) as lab:
            try:
                (row,) = (await lab.browser.json("/api/spark"))["tables"]["items"]
                assert (row["table"], row["error"]) == ("delta:/lake/orders", "it is still being read")
            finally:
                go_on.set()
            while (row := (await lab.browser.json("/api/spark"))["tables"]["items"][0])["error"].startswith("it is"):
                await asyncio.sleep(0.02)
            assert row["error"] == "LookupError: the catalog has <b>moved</b>"
            assert "<b>moved" not in (await lab.browser.get("/spark")).text

    asyncio.run(run())


def test_without_tables_the_page_says_so_and_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            assert (await lab.browser.json("/api/spark"))["tables"] == {"configured": False, "items": []}
            assert "No table was named" in (await lab.browser.get("/spark")).text

    asyncio.run(run())
    with pytest.raises(InvalidArgumentError, match="is no table"):
        DashboardOptions(name_servers="127.0.0.1:9876", tables=("orders",))
