"""Pulls: which messages, which code, which offset next; long polls and who wakes them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from flaremq.broker.long_polling import held_pulls as hold
from flaremq.broker.long_polling.pull_request import wanted_by
from flaremq.broker.requests.pulls import compact_head
from flaremq.clock import ManualClock
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import encode_frame, encode_head
from flaremq.remoting.client import RemotingClient, RequestTimeoutError
from flaremq.storage.get.pull import PullResult
from flaremq.storage.status import GetMessageStatus
from tests.support.broker_lab import UNIQUE, BrokerLab, bodies, messages, pull_fields, run, texts, until

ASYNC: dict[str, Any] = {"flushDiskType": "ASYNC_FLUSH"}
FOUND, SYSTEM_ERROR, BUSY, FORBIDDEN, NO_TOPIC, NOT_FOUND, AGAIN, MOVED = 0, 1, 2, 16, 17, 19, 20, 21
PARSE_FAILED, NOT_SUBSCRIBED, NO_GROUP, BAD = 23, 24, 26, 29
HELD: dict[str, Any] = {"sysFlag": 6, "suspendTimeoutMillis": 30_000}


async def fill(lab: BrokerLab, count: int, topic: str = "orders", **fields: Any) -> None:
    lab.topic(topic)
    for number in range(count):
        assert (await lab.send(topic, b"%d" % number, **fields)).code == 0
    lab.broker.store_loop.dispatching.catch_up()


def tagged(tag: str) -> str:
    return f"TAGS\x01{tag}\x02{UNIQUE}"


@pytest.mark.parametrize("status", GetMessageStatus)
@pytest.mark.parametrize("offset", [0, 7, 10**18])
def test_compact_reply_made_of_pieces_is_the_one_the_protocol_encodes(status: GetMessageStatus, offset: int) -> None:
    result = PullResult(status, offset, offset // 2, offset + 1, [b"body"], 1, 4)
    ext = {
        "suggestWhichBrokerId": 0,
        "nextBeginOffset": offset,
        "minOffset": offset // 2,
        "maxOffset": offset + 1,
        "topicSysFlag": 0,
        "groupSysFlag": 0,
    }
    response = RemotingCommand.response(21, status.name, ext=ext)
    response.opaque, response.serialize_type = 123_456, 1
    assert compact_head(21, 123_456, result) == encode_head(response, result.size)


def offsets(reply: RemotingCommand) -> tuple[str, ...]:
    return reply.field("nextBeginOffset"), reply.field("minOffset"), reply.field("maxOffset")


async def heartbeat(lab: BrokerLab, group: str, subscriptions: dict[str, str], **changes: Any) -> None:
    """A consumer of the group is there."""
    kind = changes.pop("expressionType", "TAG")
    data = {
        "clientID": changes.pop("client_id", "client-1"),
        "producerDataSet": [],
        "consumerDataSet": [
            {
                "groupName": group,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "unitMode": False,
                "subscriptionDataSet": [
                    {
                        "topic": topic,
                        "subString": expression,
                        "tagsSet": [],
                        "codeSet": [],
                        "subVersion": 1,
                        "expressionType": kind,
                    }
                    for topic, expression in subscriptions.items()
                ],
            }
            | changes
        ],
    }
    reply = await lab.ask(RequestCode.HEART_BEAT, None, json.dumps(data).encode())
    assert reply.code == 0, reply.remark


# What is found


@pytest.mark.parametrize("serialize_type", [0, 1], ids=["json", "compact"])
@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_pull_gets_the_records_and_where_to_go_on(serialize_type: int, code: int) -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 5)
        reply = await lab.pull("orders", 1, serialize_type=serialize_type, code=code)
        assert (reply.code, reply.remark, reply.serialize_type) == (FOUND, "FOUND", serialize_type)
        assert offsets(reply) == ("5", "0", "5") and reply.field("suggestWhichBrokerId") == "0"
        found = messages(reply)
        assert [(m.body, m.queue_offset, m.topic) for m in found] == [(b"%d" % n, n, "orders") for n in range(1, 5)]
        assert [m.properties["UNIQ_KEY"] for m in found] == [UNIQUE[9:-1]] * 4

    run(scenario, **ASYNC)


STATES = [
    ("nothing ever, at the beginning", 0, 0, NOT_FOUND, "NO_MATCHED_LOGIC_QUEUE", "0"),
    ("nothing ever, elsewhere", 0, 7, MOVED, "NO_MATCHED_LOGIC_QUEUE", "0"),
    ("the end", 3, 3, NOT_FOUND, "OFFSET_OVERFLOW_ONE", "3"),
    ("beyond the end", 3, 4, MOVED, "OFFSET_OVERFLOW_BADLY", "3"),
    ("far beyond the end", 3, 2**62, MOVED, "OFFSET_OVERFLOW_BADLY", "3"),
    ("before the beginning", 3, -1, MOVED, "OFFSET_TOO_SMALL", "0"),
]


@pytest.mark.parametrize(
    ("count", "offset", "code", "remark", "next_offset"), [s[1:] for s in STATES], ids=[s[0] for s in STATES]
)
def test_pull_that_finds_nothing_says_why(count: int, offset: int, code: int, remark: str, next_offset: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, count)
        for serialize_type in (0, 1):
            reply = await lab.pull("orders", offset, serialize_type=serialize_type)
            assert (reply.code, reply.remark, reply.field("nextBeginOffset")) == (code, remark, next_offset)
            assert reply.body_bytes == b""

    run(scenario, **ASYNC)


def test_count_and_bytes_of_a_pull_are_limited() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 40)
        assert len(bodies(await lab.pull("orders", maxMsgNums=3))) == 3
        assert len(bodies(await lab.pull("orders", 1, maxMsgNums=100))) == 39  # our own client may ask for up to 128
        assert len(bodies(await lab.pull("orders", maxMsgNums=0))) == 1
        assert len(bodies(await lab.pull("orders", maxMsgNums=-5))) == 1
        assert len(bodies(await lab.pull("orders", maxMsgBytes=1))) == 1
        size = len((await lab.pull("orders", maxMsgNums=1)).body_bytes)
        assert len(bodies(await lab.pull("orders", 1, maxMsgBytes=3 * size + 10))) == 3
        lab.topic("large")
        for _ in range(4):
            await lab.send("large", bytes(100_000))
        reply = await lab.pull("large")
        assert len(bodies(reply)) == 2 and reply.field("nextBeginOffset") == "2"

    run(scenario, **ASYNC)


def test_cold_messages_are_read_in_small_portions_on_a_worker() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 20)
        lab.broker.store._reader.memory_bytes = 100
        reply = await lab.pull("orders", 1)
        assert len(bodies(reply)) == 8
        assert bodies(await lab.pull("orders", 19)) == [b"19"]

    run(scenario, **ASYNC)


@pytest.mark.parametrize(("memory_bytes", "offset"), [(100, 19), (1 << 30, 5)], ids=["at the end", "in memory"])
def test_how_far_a_group_is_behind_is_known_until_it_has_caught_up(memory_bytes: int, offset: int) -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 20)
        statistics = lab.broker.state.statistics
        behind = statistics.fall_behind
        lab.broker.store._reader.memory_bytes = 100
        await lab.ephemeral.advanced(5_000)
        await lab.pull("orders", 1)
        key = ("orders", 0, "readers")
        await until(lambda: key in behind.times)
        assert behind.sizes[key] > 0 and behind.times[key] >= 5_000
        lab.broker.store._reader.memory_bytes = memory_bytes
        await lab.pull("orders", offset)
        await until(lambda: (behind.sizes[key], behind.times[key]) == (0, 0))
        assert statistics.find("GROUP_GET_LATENCY", "orders@readers") is not None
        assert statistics._latencies["orders", "readers"].times == 2

    run(scenario, clock=ManualClock(), **ASYNC)


# Filters


def test_tag_expression_of_the_pull_filters() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for tag in "ABCAB":
            await lab.send("orders", tag.encode(), properties=tagged(tag))
        await lab.send("orders", b"untagged")
        for expression, expected in (
            ("A", "AA"),
            ("A || B", "ABAB"),
            ("A||C", "ACA"),
            ("*", None),
            ("", None),
            (None, None),
            ("Z", ""),
        ):
            found, offset = b"", 0
            while offset < 6:
                reply = await lab.pull("orders", offset, subscription=expression)
                assert reply.code in (FOUND, AGAIN), reply.remark
                found += b"".join(bodies(reply))
                offset = int(reply.field("nextBeginOffset"))
            assert found == (b"ABCABuntagged" if expected is None else expected.encode())

    run(scenario, **ASYNC)


def test_property_expression_filters_where_it_is_allowed() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for price in range(10):
            await lab.send("orders", b"%d" % price, properties=f"price\x01{price}\x02{UNIQUE}")
        reply = await lab.pull("orders", subscription="price BETWEEN 3 AND 5", expressionType="SQL92")
        assert bodies(reply) == [b"3", b"4", b"5"]
        reply = await lab.pull("orders", subscription="price > ", expressionType="SQL92")
        assert reply.code == PARSE_FAILED
        assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"enablePropertyFilter=false\n")).code == 0
        reply = await lab.pull("orders", subscription="price > 3", expressionType="SQL92")
        assert reply.code == SYSTEM_ERROR and "SQL92" in str(reply.remark)

    run(scenario, enablePropertyFilter=True, **ASYNC)


@pytest.mark.parametrize(("kind", "part"), [("TAG", "red||"), ("SQL92", "a = 1 OR ")])
def test_expression_that_is_too_long_is_refused_before_it_is_parsed_or_kept(kind: str, part: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        before = wanted_by.cache_info()
        expression = part * (2048 // len(part) + 1) + "a = 2"
        reply = await lab.pull("orders", subscription=expression, expressionType=kind)
        assert reply.code == PARSE_FAILED and "2048" in str(reply.remark)
        assert wanted_by.cache_info() == before
        expression = part * 10 + "a = 2"
        assert (await lab.pull("orders", subscription=expression, expressionType=kind)).code == NOT_FOUND

    run(scenario, enablePropertyFilter=True, **ASYNC)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("A && B" * 1000, "SQL92"),
        ("(" * 10_000, "SQL92"),
        ("a = 1", "JAVA"),
        ("a = " + "9" * 5000, "SQL92"),
        ("\0", "SQL92"),
    ],
    ids=["long", "deep", "unknown kind", "long number", "NUL"],
)
def test_expression_that_is_none_is_refused_and_harms_nobody(expression: str, kind: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 1)
        reply = await lab.pull("orders", subscription=expression, expressionType=kind)
        assert reply.code in (SYSTEM_ERROR, PARSE_FAILED), reply.code
        assert "Traceback" not in str(reply.remark) and len(str(reply.remark)) < 2000
        assert bodies(await lab.pull("orders")) == [b"0"]

    run(scenario, enablePropertyFilter=True, **ASYNC)


def test_subscription_of_the_heartbeat_is_used_when_the_pull_brings_none() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for tag in "ABA":
            await lab.send("orders", tag.encode(), properties=tagged(tag))
        plain: dict[str, Any] = {"sysFlag": 0, "subscription": None}
        assert (await lab.pull("orders", **plain)).code == NOT_SUBSCRIBED
        await heartbeat(lab, "readers", {"orders": "A"})
        assert bodies(await lab.pull("orders", **plain)) == [b"A", b"A"]
        assert bodies(await lab.pull("orders", subVersion=99, **plain)) == [b"A", b"A"]
        lab.topic("other")
        assert (await lab.pull("other", **plain)).code == NOT_SUBSCRIBED
        assert (await lab.pull("orders", group="strangers", **plain)).code == NOT_SUBSCRIBED

    run(scenario, **ASYNC)


def test_broadcasting_group_that_may_not_is_forbidden() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 1)
        config = SubscriptionGroupConfig(group_name="readers", consume_broadcast_enable=False)
        lab.broker.state.groups.update(config)
        await heartbeat(lab, "readers", {"orders": "*"}, messageModel="BROADCASTING")
        assert (await lab.pull("orders", sysFlag=0, subscription=None)).code == FORBIDDEN

    run(scenario, **ASYNC)


# Which error wins


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("missing field", {"queueOffset": None}, {}, SYSTEM_ERROR),
    ("number that is none", {"maxMsgNums": "x"}, {}, SYSTEM_ERROR),
    ("broker not readable, before the group", {"consumerGroup": "a b"}, {"brokerPermission": 2}, FORBIDDEN),
    (
        "no group, before the topic",
        {"consumerGroup": "fresh", "topic": "absent"},
        {"autoCreateSubscriptionGroup": False},
        NO_GROUP,
    ),
    ("group that is no name", {"consumerGroup": "../up"}, {}, NO_GROUP),
    ("group switched off, before the topic", {"consumerGroup": "off", "topic": "absent"}, {}, FORBIDDEN),
    ("no topic", {"topic": "absent", "queueId": 99}, {}, NO_TOPIC),
    ("topic not readable, before the queue", {"topic": "write-only", "queueId": 99}, {}, FORBIDDEN),
    (
        "queue too large, before the expression",
        {"queueId": 4, "subscription": "a = ", "expressionType": "SQL92"},
        {},
        BAD,
    ),
    ("negative queue", {"queueId": -1}, {}, BAD),
    (
        "bad expression",
        {"subscription": "a = ", "expressionType": "SQL92"},
        {"enablePropertyFilter": True},
        PARSE_FAILED,
    ),
]


@pytest.mark.parametrize(("fields", "options", "code"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused_pull_has_the_code_of_the_first_check_that_fails(
    fields: dict[str, Any], options: dict[str, Any], code: int
) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        lab.topic("write-only", perm=2)
        lab.broker.state.groups.update(SubscriptionGroupConfig(group_name="off", consume_enable=False))
        ext = pull_fields("orders", 0, group="TOOLS_CONSUMER", queue_id=0) | {"commitOffset": 5, "sysFlag": 7} | fields
        ext = {name: value for name, value in ext.items() if value is not None}
        for request_code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            for serialize_type in (0, 1):
                reply = await lab.ask(request_code, ext, serialize_type=serialize_type)
                assert reply.code == code, (reply.code, reply.remark)
                assert reply.remark and "\n" not in reply.remark
        assert lab.broker.state.offsets.find("TOOLS_CONSUMER", "orders", 0) == -1, "nothing was committed"

    run(scenario, **options)


def test_lite_pulls_can_be_switched_off() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 1)
        assert (await lab.pull("orders", code=RequestCode.LITE_PULL_MESSAGE)).code == FORBIDDEN
        assert (await lab.pull("orders")).code == FOUND

    run(scenario, litePullMessageEnable=False, **ASYNC)


# Offsets


def test_pull_commits_the_offset_it_carries_even_if_it_finds_nothing() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 3)
        committed = lab.broker.state.offsets
        await lab.pull("orders", 3, sysFlag=4, commitOffset=2)
        assert committed.find("readers", "orders", 0) == -1
        assert (await lab.pull("orders", 3, sysFlag=5, commitOffset=2)).code == NOT_FOUND
        assert committed.find("readers", "orders", 0) == 2

    run(scenario, **ASYNC)


def test_offset_reset_on_the_server_is_what_the_next_pull_gets_once() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 3)
        lab.broker.state.offsets.reset("readers", "orders", 0, 1)
        reply = await lab.pull("orders", 3)
        assert (reply.code, reply.remark, offsets(reply)) == (MOVED, "OFFSET_RESET", ("1", "0", "3"))
        assert (await lab.pull("orders", 3)).code == NOT_FOUND

    run(scenario, **ASYNC)


# Long polls


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("serialize_type", [0, 1], ids=["json", "compact"])
def test_held_pull_is_woken_by_the_arrival_of_a_message(flush: str, serialize_type: int) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        holds = lab.broker.handlers._pull.holds
        for number in range(3):
            waiting = asyncio.ensure_future(lab.pull("orders", number, serialize_type=serialize_type, **HELD))
            await until(lambda: holds.size == 1)
            await lab.send("orders", b"%d" % number, serialize_type=serialize_type)
            reply = await asyncio.wait_for(waiting, 10)  # its own time would be over in 30 s
            assert (bodies(reply), reply.field("nextBeginOffset")) == ([b"%d" % number], str(number + 1))
            assert holds.size == 0 and not lab.broker.store_loop.dispatching.awaited

    run(scenario, flushDiskType=flush)


def test_message_on_its_way_is_not_missed_by_a_pull_that_begins_to_wait() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for number in range(20):
            pulled, sent = await asyncio.gather(
                asyncio.wait_for(lab.pull("orders", number, **HELD), 10), lab.send("orders", b"%d" % number)
            )
            assert sent.code == 0 and bodies(pulled) == [b"%d" % number]

    run(scenario)


def test_held_pull_ends_with_its_time() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        reply = await lab.pull("orders", sysFlag=6, suspendTimeoutMillis=300)
        assert (reply.code, reply.field("nextBeginOffset")) == (NOT_FOUND, "0")
        assert lab.broker.handlers._pull.holds.size == 0

    run(scenario, **ASYNC)


def test_arrivals_that_are_not_wanted_keep_a_pull_waiting_and_move_it_on() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        holds = lab.broker.handlers._pull.holds
        waiting = asyncio.ensure_future(lab.pull("orders", subscription="A", **HELD))
        other_queue = asyncio.ensure_future(lab.pull("orders", queue_id=1, **HELD))
        await until(lambda: holds.size == 2)
        for _ in range(5):
            await lab.send("orders", b"unwanted", properties=tagged("B"))
        lab.broker.store_loop.dispatching.catch_up()
        assert holds.size == 2 and not waiting.done() and not other_queue.done()
        await lab.send("orders", b"wanted", properties=tagged("A"))
        reply = await asyncio.wait_for(waiting, 10)
        assert (bodies(reply), reply.field("nextBeginOffset")) == ([b"wanted"], "6")
        await lab.send("orders", b"there", queue_id=1)
        assert bodies(await asyncio.wait_for(other_queue, 10)) == [b"there"]

    run(scenario, **ASYNC)


@pytest.mark.slow
def test_unwanted_arrivals_are_told_when_the_time_is_over() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        fields: dict[str, Any] = {"sysFlag": 6, "suspendTimeoutMillis": 1500, "subscription": "A"}
        waiting = asyncio.ensure_future(lab.pull("orders", **fields))
        await until(lambda: lab.broker.handlers._pull.holds.size == 1)
        for _ in range(3):
            await lab.send("orders", b"unwanted", properties=tagged("B"))
        reply = await waiting
        assert (reply.code, reply.field("nextBeginOffset")) == (NOT_FOUND, "3"), "it need not look at them again"

    run(scenario, **ASYNC)


def test_pull_of_a_lost_connection_is_held_no_longer() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        holds = lab.broker.handlers._pull.holds
        other = RemotingClient()
        waiting = [asyncio.ensure_future(lab.pull("orders", client=other, **HELD)) for _ in range(10)]
        staying = asyncio.ensure_future(lab.pull("orders", **HELD))
        await until(lambda: holds.size == 11)
        await other.close()
        await until(lambda: holds.size == 1)
        assert list(lab.broker.store_loop.dispatching.awaited.values()) == [1]
        await asyncio.gather(*waiting, return_exceptions=True)
        await lab.send("orders", b"body")
        assert bodies(await asyncio.wait_for(staying, 10)) == [b"body"]

    run(scenario, **ASYNC)


def test_thousands_of_held_pulls_are_bounded_and_all_answered() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        holds = lab.broker.handlers._pull.holds
        waiting = [asyncio.ensure_future(lab.pull("orders", timeout=50.0, **HELD)) for _ in range(2000)]
        await until(lambda: holds.size == 2000)
        over = await lab.pull("orders", **HELD)
        assert over.code == BUSY and str(over.remark).startswith("[OVERLOAD]")
        await lab.send("orders", b"for all")
        replies = await asyncio.gather(*waiting)
        assert all(bodies(reply) == [b"for all"] for reply in replies)
        assert holds.size == 0 and not holds._held

    run(scenario, heldPullsMax=2000, **ASYNC)


def test_held_pulls_of_one_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "PER_CONNECTION_MAX", 5)

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        holds = lab.broker.handlers._pull.holds
        waiting = [asyncio.ensure_future(lab.pull("orders", **HELD)) for _ in range(5)]
        await until(lambda: holds.size == 5)
        over = await lab.pull("orders", **HELD)
        assert over.code == BUSY and str(over.remark).startswith("[OVERLOAD]")
        other = RemotingClient()
        waiting.append(asyncio.ensure_future(lab.pull("orders", client=other, **HELD)))
        await until(lambda: holds.size == 6)
        await lab.send("orders", b"for all")
        assert {bodies(reply)[0] for reply in await asyncio.gather(*waiting)} == {b"for all"}
        await other.close()

    run(scenario, **ASYNC)


def test_thousands_of_held_pulls_of_a_client_that_does_not_read_fill_no_memory_and_keep_nobody_waiting() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        holds = lab.broker.handlers._pull.holds
        ext = texts(pull_fields("orders", 0, group="readers", queue_id=0, **HELD))
        frame = encode_frame(RemotingCommand.request(RequestCode.PULL_MESSAGE, ext))
        _, writer = await asyncio.open_connection("127.0.0.1", lab.broker.port)
        writer.write(frame * 4000)
        await until(lambda: holds.size == 4000)
        (connection,) = holds._room.by_connection
        honest = asyncio.ensure_future(lab.pull("orders", **HELD))
        await until(lambda: holds.size == 4001)
        assert (await lab.send("orders", bytes(200_000))).code == 0
        assert len(bodies(await asyncio.wait_for(honest, 20))[0]) == 200_000
        assert connection.is_stalled and holds.size > 3000, "the others wait until it reads"
        transport = connection._transport
        assert transport is not None and transport.get_write_buffer_size() < 16 << 20
        writer.transport.abort()
        await until(lambda: holds.size == 0)

    run(scenario, **ASYNC)


def test_without_long_polling_a_pull_waits_a_short_time() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        reply = await asyncio.wait_for(lab.pull("orders", **HELD), 10)
        assert reply.code == NOT_FOUND

    run(scenario, longPollingEnable=False, shortPollingTimeMills=100, **ASYNC)


@pytest.mark.parametrize(
    "fields",
    [{"sysFlag": 4, "suspendTimeoutMillis": 30_000}, {"sysFlag": 6}, {"sysFlag": 6, "suspendTimeoutMillis": -5}],
)
def test_pull_that_may_not_wait_is_answered_at_once(fields: dict[str, Any]) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        reply = await asyncio.wait_for(lab.pull("orders", **fields), 10)
        assert reply.code == NOT_FOUND

    run(scenario, **ASYNC)


def test_offset_reset_reaches_a_pull_that_waits() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 3)
        waiting = asyncio.ensure_future(lab.pull("orders", 3, **HELD))
        await until(lambda: lab.broker.handlers._pull.holds.size == 1)
        lab.broker.state.offsets.reset("readers", "orders", 0, 1)
        await lab.send("orders", b"new")
        reply = await asyncio.wait_for(waiting, 10)
        assert (reply.code, reply.field("nextBeginOffset")) == (MOVED, "1")

    run(scenario, **ASYNC)


def test_stopping_broker_answers_who_waits() -> None:
    async def main() -> None:
        async with BrokerLab(**ASYNC) as lab:
            lab.topic("orders")
            waiting = asyncio.ensure_future(lab.pull("orders", **HELD))
            await until(lambda: lab.broker.handlers._pull.holds.size == 1)
            await lab.broker.stop()
            assert (await asyncio.wait_for(waiting, 10)).code == NOT_FOUND

    asyncio.run(main())


def test_oneway_pull_gets_nothing_and_harms_nothing() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 1)
        for offset in (0, 1):
            ext = texts(pull_fields("orders", offset, group="readers", queue_id=0, **HELD))
            await lab.client.oneway(lab.address, RemotingCommand.request(RequestCode.PULL_MESSAGE, ext, oneway=True))
        assert bodies(await lab.pull("orders")) == [b"0"]
        with pytest.raises(RequestTimeoutError):
            await lab.pull("orders", 1, timeout=0.3, **HELD)

    run(scenario, **ASYNC)


def test_clients_of_rocketmq_get_as_many_messages_as_from_rocketmq() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 40)
        assert len(bodies(await lab.pull("orders", 1, maxMsgNums=100, language="JAVA"))) == 32

    run(scenario, **ASYNC)


def test_limits_of_a_pull_change_while_the_broker_runs() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await fill(lab, 40)
        assert len(bodies(await lab.pull("orders", maxMsgNums=2**31 - 1, language="JAVA"))) == 32
        for text, count in ((b"7", 7), (b"%d" % (2**31 - 1), 40)):
            line = b"maxTransferCountOnMessageInMemory=" + text
            assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, line)).code == 0
            assert len(bodies(await lab.pull("orders", maxMsgNums=2**31 - 1, language="JAVA"))) == count

    run(scenario, **ASYNC)


def test_reply_of_a_pull_has_an_end_whatever_the_options_say() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for _ in range(6):
            assert (await lab.send("orders", bytes(1 << 20))).code == 0
        line = b"maxTransferBytesOnMessageInMemory=%d\nmaxTransferCountOnMessageInMemory=1000" % (2**31 - 1)
        assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, line)).code == 0
        assert len(bodies(await lab.pull("orders", maxMsgNums=1000, maxMsgBytes=2**31 - 1))) == 3

    run(scenario, **ASYNC)


@pytest.mark.parametrize(
    "name", ["maxFilterMessageSize", "travelCqFileNumWhenGetMessage", "maxMsgsNumBatch", "defaultQueryMaxNum"]
)
def test_live_option_that_would_let_one_request_take_the_loop_is_bounded(name: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, f"{name}={2**31 - 1}".encode())
        assert reply.code != 0 and "a whole number from" in str(reply.remark)

    run(scenario, **ASYNC)
