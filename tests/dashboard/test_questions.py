"""What is asked when a page is opened: traces, transactions, bodies, strange names on the way to a browser."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from flaremq import Admin, Message, Producer
from flaremq.client.consumer.received import read_messages
from flaremq.client.producer.transactions import TransactionListener, TransactionState
from flaremq.dashboard.data.group_state import GroupState
from flaremq.dashboard.data.topic_state import TopicState
from flaremq.dashboard.questions.message import SHOWN_MAX, body_of
from flaremq.dashboard.questions.trace import trace_events
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.codec import encode_record
from flaremq.message.sys_flag import COMPRESSED
from flaremq.message.topics import TRACE_TOPIC
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.topic import TopicConfig
from tests.support.dashboard_lab import dashboard_lab

_TAG = re.compile(r"<[^>]*>")
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\u202egnp.exe",
    "nul\x00byte",
    "a/../../b",
    "{{ 7 * 7 }}",
    "'\"&amp;",
)


def _record(body: bytes, *, sys_flag: int = 0) -> Any:
    record = encode_record(
        topic=b"orders",
        body=body,
        properties=b"",
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        born_timestamp=1,
        born_host=bytes(8),
        store_timestamp=1,
        store_host=bytes(8),
        flag=0,
        sys_flag=sys_flag,
    )
    (message,) = read_messages(bytes(record), MessageQueue(topic="orders", broker_name="b", queue_id=0))
    assert isinstance(message, MessageExt)
    return message


@pytest.mark.parametrize("name", HOSTILE)
def test_strange_names_are_text_in_every_page(tmp_path: Path, name: str) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            await lab.freeze()
            state = lab.service.context.state
            config = TopicConfig(topic_name=name, attributes={name: name})
            state.topics[name] = TopicState(name, "user", {"broker-a": config}, ends_ms=1)
            state.groups[name] = GroupState(name, is_online=False)
            path = quote(name, safe="")
            for page in ("", "topics", "groups", f"topics/{path}", f"groups/{path}", f"search?q={path}"):
                reply = await lab.browser.get(f"/{page}")
                assert reply.status == 200, page
                text = reply.text
                assert "<img src=x" not in text and "alert(1)</script>" not in text
                assert "\u202e" not in _TAG.sub("", text)  # attributes hold names as they are, for scripts and forms
                assert ">49<" not in text
            assert (await lab.browser.json(f"/api/topics/{path}"))["topic"]["topic"] == name
            items = (await lab.browser.json("/api/topics"))["items"]
            assert name in {row["topic"] for row in items}

    asyncio.run(run())


@pytest.mark.parametrize("body", [*map(str.encode, HOSTILE), b"\xff\xfe\x00", b""])
def test_strange_bodies_are_text_in_lists_and_details(tmp_path: Path, body: bytes) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Producer(lab.broker.name_server, group="p") as producer:
            sent = await producer.send(Message("orders", body or b" "))
            for page in ("messages?topic=orders", f"messages/{sent.message_id}?topic=orders"):
                reply = await lab.browser.get(f"/{page}")
                assert reply.status == 200
                assert "<img src=x" not in reply.text and "alert(1)</script>" not in reply.text
            raw = await lab.browser.get(f"/api/messages/{sent.message_id}/body?topic=orders&as=raw")
            assert raw.body == (body or b" ") and raw.header("x-content-type-options") == "nosniff"

    asyncio.run(run())


def test_bodies_are_cut_and_never_inflated_without_end() -> None:
    long = body_of(_record(b"x" * (SHOWN_MAX + 1)), "auto")
    assert long["cut"] and len(long["content"]) == SHOWN_MAX and long["total_bytes"] == SHOWN_MAX + 1
    bomb = _record(zlib.compress(bytes(64 << 20), 9), sys_flag=COMPRESSED)
    shown = body_of(bomb, "auto")
    assert shown["error"] and len(shown["content"]) <= SHOWN_MAX
    good = body_of(_record(zlib.compress(b'{"a": [1]}'), sys_flag=COMPRESSED), "auto")
    assert good["as"] == "json" and json.loads(good["content"]) == {"a": [1]} and good["inflated_bytes"] == 10
    deep = body_of(_record(b"[" * 100_000), "json")
    assert deep["as"] == "text" and deep["error"]
    hexed = body_of(_record(bytes(range(32))), "hex")
    assert hexed["content"].splitlines()[0].startswith("00000000  00 01 02 03")


class _Undecided(TransactionListener):
    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check(self, message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN


def test_half_messages_wait_until_they_are_decided(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            await admin.create_topic("orders")
            async with Producer(lab.broker.name_server, group="p", listener=_Undecided()) as producer:
                await producer.transaction(Message("orders", b"half", keys=["h1"]))
                await lab.look()
                halves = (await lab.browser.json("/api/waiting"))["halves"]
                (row,) = halves["items"]
                assert (halves["waiting"], row["topic"], row["group"]) == (1, "orders", "p")

    asyncio.run(run())


def test_a_half_message_that_is_asked_about_is_told_once_and_can_begin_again(tmp_path: Path) -> None:
    options = {"transactionTimeOut": 1, "transactionCheckInterval": 20, "transactionCheckMax": 2}

    async def run() -> None:
        lab_of = dashboard_lab(tmp_path, broker_options=options)
        async with lab_of as lab, Admin(lab.broker.name_server) as admin, asyncio.timeout(60):
            await admin.create_topic("orders")
            async with Producer(lab.broker.name_server, group="p", listener=_Undecided()) as producer:
                await producer.transaction(Message("orders", b"half", keys=["h1"]))
                await lab.look()
                await lab.browser.sign_in()
                row: dict[str, Any] = {}
                while not row.get("given_up"):
                    halves = (await lab.browser.json("/api/waiting"))["halves"]
                    assert len(halves["items"]) <= 1  # none: between its two topics
                    row = (halves["items"] or [{}])[0]
                assert halves["waiting"] == 0 and row["topic"] == "orders"
                assert (await lab.browser.act("half.check", id=row["id"])).json()["done"] == 1

    asyncio.run(run())


def _trace(message_id: str) -> bytes:
    fields = ("Pub", "1000", "r", "p", "orders", message_id, "t", "k1", "h", "3", "7", "0", "off", "true")
    before = ("SubBefore", "1010", "r", "billing", "req1", message_id, "1", "k1")
    after = ("SubAfter", "req1", message_id, "12", "false", "k1", "2")
    return b"".join("\x01".join(each).encode() + b"\x02" for each in (fields, before, after))


def test_a_trace_is_a_line_of_events(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            off = await lab.browser.json("/api/trace", id="M1", trace_topic="nobody")
            assert off["on"] is False and off["missing"]["items"]["reason"] == "off"
            await admin.create_topic("TRACES")
            async with Producer(lab.broker.name_server, group="p") as producer:
                await producer.send(Message("TRACES", _trace("M1"), keys=["M1", "k1"]))
            await lab.look()
            found = await lab.browser.json("/api/trace", id="M1", trace_topic="TRACES")
            told = [(row["kind"], row["group"], row["cost_ms"], row["ok"]) for row in found["items"]]
            assert told == [("produce", "p", 7, True), ("consume", "billing", 12, False)]
            assert found["items"][1]["attempt"] == 2
            by_key = await lab.browser.json("/api/trace", key="k1", trace_topic="TRACES")
            assert len(by_key["items"]) == 2

    asyncio.run(run())


def test_what_is_no_trace_is_left_out() -> None:
    assert trace_events([_record(b"Pub\x01cut\x02" + b"\xff" * 9), _record(_trace("M2"))], "M1") == []
    assert TRACE_TOPIC
