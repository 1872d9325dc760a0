"""A user with rights of its own tries to get at what is another's, over the wire of a running broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import HALF_TOPIC, SCHEDULE_TOPIC
from flaremq.protocol.command import BINARY_HEADER, JSON_HEADER, ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import MARK, signed
from tests.access.attack_lab import Lab, Raw, asked, lab, secret_of, send_fields

_KEY = "UNIQ_KEY\x01C00002021CA84E0E2F2A4F5E49AD{:04d}\x02"
_QUEUE = {"queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0", "commitOffset": "0", "offset": "0"}
_QUEUE |= {"suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "timestamp": "0"}
_POP = {"queueId": "0", "maxMsgNums": "1", "invisibleTime": "1000", "pollTime": "0", "bornTime": "0", "initMode": "0"}
_POP |= {"exp": "*", "expType": "TAG", "order": "false", "extraInfo": "0 0 1000 0 0 broker-a 0 0", "offset": "0"}


def _body(**fields: Any) -> bytes:
    return orjson.dumps(fields)


def _heartbeat(group: str, *topics: str) -> bytes:
    data = [{"groupName": group, "subscriptionDataSet": [{"topic": topic, "subString": "*"} for topic in topics]}]
    return _body(clientID="c", producerDataSet=[], consumerDataSet=data)


def _locks(group: str, topic: str) -> bytes:
    return _body(consumerGroup=group, clientId="c", mqSet=[{"brokerName": "b", "queueId": 0, "topic": topic}])


_REFUSALS = ("no permission to access", "came before, from elsewhere")  # a change is not asked for over two connections
_FOREIGN = ("orders", "%RETRY%good", "%DLQ%good", "%RETRY%good+open", "%RETRY%good_open")
# What the attacker asks for, each once for its own names and once for another's.
_BY_TOPIC: dict[str, Any] = {
    "send 10": lambda topic: (10, {"producerGroup": "pg", "topic": topic, "b": "open", "queueId": "0"}, b"x"),
    "send 310": lambda topic: (310, send_fields(topic) | {"topic": "open", "B": "open"}, b"x"),
    "batch 310": lambda topic: (310, send_fields(topic) | {"m": "true"}, b"x"),
    "batch 320": lambda topic: (320, send_fields(topic), b"x"),
    "reply 324": lambda topic: (324, {"producerGroup": "pg", "topic": topic, "b": "open"}, b"x"),
    "reply 325": lambda topic: (325, send_fields(topic) | {"topic": "open"}, b"x"),
    "recall 370": lambda topic: (370, {"topic": topic, "recallHandle": "x", "producerGroup": "pg"}, b""),
    "stream 900100": lambda topic: (900100, {"topic": topic, "stream": "s", "token": "0" * 16, "stem": "s"}, b""),
    "pull 11": lambda topic: (11, {"topic": topic, "consumerGroup": "own", "Topic": "open", **_QUEUE}, b""),
    "lite pull 361": lambda topic: (361, {"topic": topic, "consumerGroup": "own", **_QUEUE}, b""),
    "query offset 14": lambda topic: (14, {"topic": topic, "consumerGroup": "own", "queueId": "0"}, b""),
    "update offset 15": lambda topic: (15, {"topic": topic, "consumerGroup": "own", **_QUEUE}, b""),
    "search 29": lambda topic: (29, {"topic": topic, **_QUEUE}, b""),
    "max 30": lambda topic: (30, {"topic": topic, **_QUEUE}, b""),
    "min 31": lambda topic: (31, {"topic": topic, **_QUEUE}, b""),
    "earliest 32": lambda topic: (32, {"topic": topic, **_QUEUE}, b""),
    "query 12": lambda topic: (12, {"topic": topic, "key": "k", "maxNum": "32", "beginTimestamp": "0"}, b""),
    "heartbeat 34": lambda topic: (34, {}, _heartbeat("own", "open", topic)),
    "check 46": lambda topic: (
        46,
        {},
        _body(
            clientId="c", group="own", subscriptionData={"topic": topic, "subString": "a>1", "expressionType": "SQL92"}
        ),
    ),
    "lock 41": lambda topic: (41, {}, _locks("own", topic)),
    "unlock 42": lambda topic: (42, {}, _locks("own", topic)),
    "assignment 400": lambda topic: (400, {}, _body(topic=topic, consumerGroup="own", clientId="c")),
    "pop": lambda topic: (200050, {"topic": topic, "consumerGroup": "own", **_POP}, b""),
    "ack": lambda topic: (200051, {"topic": topic, "consumerGroup": "own", **_POP}, b""),
    "peek": lambda topic: (200052, {"topic": topic, "consumerGroup": "own", **_POP}, b""),
    "invisible": lambda topic: (200053, {"topic": topic, "consumerGroup": "own", **_POP}, b""),
    "notification": lambda topic: (200054, {"topic": topic, "consumerGroup": "own", **_POP}, b""),
    "batch ack": lambda topic: (
        200151,
        {},
        _body(brokerName="b", acks=[{"c": "own", "t": "open"}, {"c": "own", "t": topic}]),
    ),
}
_BY_GROUP: dict[str, Any] = {
    "send back 36": lambda group: (36, {"group": group, "offset": "0", "delayLevel": "0", "consumerGroup": "own"}, b""),
    "pull 11": lambda group: (11, {"topic": "open", "consumerGroup": group, **_QUEUE}, b""),
    "lite pull 361": lambda group: (361, {"topic": "open", "consumerGroup": group, **_QUEUE}, b""),
    "heartbeat 34": lambda group: (34, {}, _heartbeat(group, "open")),
    "unregister 35": lambda group: (35, {"clientID": "c", "consumerGroup": group}, b""),
    "consumers 38": lambda group: (38, {"consumerGroup": group}, b""),
    "query offset 14": lambda group: (14, {"topic": "open", "consumerGroup": group, "queueId": "0"}, b""),
    "update offset 15": lambda group: (15, {"topic": "open", "consumerGroup": group, **_QUEUE}, b""),
    "check 46": lambda group: (46, {}, _body(clientId="c", group=group, subscriptionData={"topic": "open"})),
    "lock 41": lambda group: (41, {}, _locks(group, "open")),
    "assignment 400": lambda group: (400, {}, _body(topic="open", consumerGroup=group, clientId="c")),
    "pop": lambda group: (200050, {"topic": "open", "consumerGroup": group, **_POP}, b""),
    "ack": lambda group: (200051, {"topic": "open", "consumerGroup": group, **_POP}, b""),
    "invisible": lambda group: (200053, {"topic": "open", "consumerGroup": group, **_POP}, b""),
    "batch ack": lambda group: (
        200151,
        {},
        _body(brokerName="b", acks=[{"c": "own", "t": "open"}, {"c": group, "t": "open"}]),
    ),
    "running info 307": lambda group: (307, {"consumerGroup": group, "clientId": "c", "group": "own"}, b""),
    "direct 309": lambda group: (309, {"consumerGroup": group, "clientId": "c", "msgId": "00" * 16}, b""),
}


def _forms(command: RemotingCommand) -> list[bytes]:
    """The same request in both header encodings, where the code fits both."""
    kinds = (JSON_HEADER, BINARY_HEADER) if command.code < 1 << 15 else (JSON_HEADER,)
    frames = []
    for kind in kinds:
        command.serialize_type = kind
        frames.append(encode_frame(command))
    return frames


async def _all_refused(found: Lab, requests: list[tuple[str, tuple[int, dict[str, str], bytes]]]) -> list[str]:
    """Names of those that were not refused, on the broker's port and on the VIP port."""
    passed = []
    for port in (found.broker.port, found.broker.port - 2):
        raw = await found.connect(port)
        for name, (code, ext, body) in requests:
            for frame in _forms(asked("attacker", code, ext, body)):
                raw.writer.write(frame)
                (reply,) = (await raw.replies(1)).values()
                if reply.code != 16 or not any(words in str(reply.remark) for words in _REFUSALS):
                    passed.append(f"{name} at {port}: {reply.code} {reply.remark}")
    return passed


def test_no_request_reaches_what_is_anothers(tmp_path: Path) -> None:
    requests = [(f"{name} {topic}", make(topic)) for name, make in _BY_TOPIC.items() for topic in _FOREIGN]
    requests += [(name, make("good")) for name, make in _BY_GROUP.items()]

    async def run() -> list[str]:
        async with lab(tmp_path) as found:
            return await _all_refused(found, requests)

    assert asyncio.run(run()) == []


def test_the_same_requests_for_ones_own_pass_the_guard(tmp_path: Path) -> None:
    """Or the test above would be content with requests that nobody understands."""

    async def run() -> list[str]:
        async with lab(tmp_path) as found:
            raw, refused = await found.connect(), []
            for name, make in _BY_TOPIC.items():
                reply = await raw.ask(asked("attacker", *make("open")))
                refused += [name] if "no permission to access" in (reply.remark or "") else []
            for name, make in _BY_GROUP.items():
                reply = await raw.ask(asked("attacker", *make("own")))
                refused += [name] if "no permission to access" in (reply.remark or "") else []
            return refused

    # Of a reply topic and of records that are not there nobody may do anything.
    assert asyncio.run(run()) == []


async def _stored(found: Lab, topic: str, body: bytes, properties: str = "") -> tuple[int, str]:
    """Where the victim's message lies, and its id."""
    raw = await found.connect()
    reply = await raw.ask(asked("victim", 310, send_fields(topic, _KEY.format(7) + properties), body))
    assert reply.code == 0, reply.remark
    message_id = str((reply.ext or {})["msgId"])
    return int(message_id[-16:], 16), message_id


def test_a_record_is_reached_by_none_of_the_ways_that_name_its_place(tmp_path: Path) -> None:
    async def run() -> None:
        async with lab(tmp_path) as found:
            offset, message_id = await _stored(found, "orders", b"secret order")
            requests: list[tuple[str, tuple[int, dict[str, str], bytes]]] = []
            for claimed in ({}, {"topic": "open"}, {"originTopic": "open"}):
                back = {"offset": str(offset), "group": "own", "delayLevel": "0", "originMsgId": message_id}
                half = {"commitLogOffset": str(offset), "tranStateTableOffset": "0", "commitOrRollback": "8"}
                half |= {"producerGroup": "pg", "msgId": message_id, "transactionId": "x"}
                direct = {"consumerGroup": "own", "clientId": "c", "msgId": message_id}
                requests += [
                    ("33", (33, {"offset": str(offset), **claimed}, b"")),
                    ("33 in another spelling", (33, {"offset": f"+{offset}", **claimed}, b"")),
                    ("36", (36, {**back, **claimed}, b"")),
                    ("37", (37, {**half, **claimed}, b"")),
                    ("309", (309, {**direct, **claimed}, b"")),
                    ("323", (323, {"msgId": message_id, **claimed}, b"")),
                ]
            assert await _all_refused(found, requests) == []
            assert await found.code("victim", 33, {"offset": str(offset)}) == 0
            end = found.broker.store_loop.store.max_physical_offset
            assert await found.code("attacker", 33, {"offset": str(end)}) == 16  # what comes next may be anybody's

    asyncio.run(run())


def test_a_property_of_a_record_is_not_its_topic(tmp_path: Path) -> None:
    """Only where the broker itself lets messages wait does it say where they belong."""

    async def run() -> list[str]:
        async with lab(tmp_path) as found:
            offset, _ = await _stored(found, "orders", b"secret order", "REAL_TOPIC\x01open\x02REAL_QID\x010\x02")
            return await _all_refused(found, [("33", (33, {"offset": str(offset)}, b""))])

    assert asyncio.run(run()) == []


def test_properties_lead_no_message_to_another_topic(tmp_path: Path) -> None:
    redirects = "REAL_TOPIC\x01orders\x02REAL_QID\x010\x02RETRY_TOPIC\x01orders\x02INNER_MULTI_DISPATCH\x01orders\x02"
    waiting = {SCHEDULE_TOPIC: "DELAY\x011\x02", HALF_TOPIC: "TRAN_MSG\x01true\x02PGROUP\x01pg\x02"}

    async def run() -> None:
        async with lab(tmp_path) as found:
            raw = await found.connect()
            store = found.broker.store_loop.store
            for number, (topic, property_) in enumerate(waiting.items()):
                for order in (redirects + property_, property_ + redirects):
                    fields = send_fields("open", _KEY.format(number) + order)
                    assert (await raw.ask(asked("attacker", 310, fields, b"mine"))).code == 0
                    (record,) = store.get(topic, 0, store.max_offset(topic, 0) - 1, 1).messages
                    assert isinstance(record, MessageExt)
                    assert record.properties["REAL_TOPIC"] == "open"
            fields = send_fields("open", _KEY.format(9) + redirects)
            await raw.ask(asked("attacker", 310, fields, b"mine"))
            assert store.max_offset("orders", 0) == 0

    asyncio.run(run())


def test_half_messages_are_ended_by_the_right_of_their_real_topic(tmp_path: Path) -> None:
    async def run() -> None:
        async with lab(tmp_path) as found:
            offset, message_id = await _stored(found, "orders", b"secret", "TRAN_MSG\x01true\x02PGROUP\x01pg\x02")
            end = {"commitLogOffset": str(offset), "tranStateTableOffset": "0", "commitOrRollback": "8"}
            end |= {"producerGroup": "pg", "msgId": message_id, "transactionId": "x", "topic": "open"}
            assert await _all_refused(found, [("37", (37, end, b"")), ("33", (33, {"offset": str(offset)}, b""))]) == []
            assert await found.code("victim", 37, end) == 0

    asyncio.run(run())


# Frames


async def _codes(raw: Raw, data: bytes, count: int) -> dict[int, int]:
    raw.writer.write(data)
    return {opaque: reply.code for opaque, reply in (await raw.replies(count)).items()}


@pytest.mark.parametrize("code", [-1, 0, 999, 4711, 32767, -32768, 2**31 - 1, -(2**31)])
def test_codes_that_nobody_answers_tell_strangers_nothing(code: int, tmp_path: Path) -> None:
    async def run() -> tuple[int, int]:
        async with lab(tmp_path) as found:
            return await found.code(None, code), await found.code("attacker", code)

    assert asyncio.run(run()) == (16, 3)


def test_sends_of_several_accounts_in_one_read_are_told_apart(tmp_path: Path) -> None:
    """However the bytes come, in one piece or one by one, and in whatever order."""
    wanted = {}
    frames = []
    plan = [("victim", "orders", 0), ("attacker", "orders", 16), ("attacker", "open", 0), ("victim", "open", 16)]
    plan += [(None, "orders", 16), ("victim", "orders", 0), ("root", "orders", 0), ("nobody", "open", 16)]
    for number in range(64):
        user, topic, code = plan[number * 5 % len(plan)]
        command = asked(user, 310, send_fields(topic, _KEY.format(number)), b"%d" % number)
        command.opaque, command.serialize_type = number, number & 1
        wanted[number] = code
        frames.append(encode_frame(command))
    data = b"".join(frames)

    async def run() -> None:
        async with lab(tmp_path) as found:
            warm = await found.connect()
            for _ in range(2):
                for topic in ("orders", "open"):
                    await warm.ask(asked("root", 310, send_fields(topic, _KEY.format(9)), b"warm"))
            assert await _codes(await found.connect(), data, 64) == wanted
            for at in (1, 7, 8, 9, len(frames[0]) + 3, len(data) - 1):
                raw = await found.connect()
                again = b"".join(
                    _again(frame, b"%d" % at) for frame in frames
                )  # signed anew, or they would be replayed
                raw.writer.write(again[:at])
                await raw.writer.drain()
                assert await _codes(raw, again[at:], 64) == wanted

    asyncio.run(run())


def _again(frame: bytes, more: bytes) -> bytes:
    (command,) = FrameDecoder().receive(frame)
    fields = {name: value for name, value in (command.ext or {}).items() if name != "Signature"}
    user = fields.pop("AccessKey", None)
    body = command.body_bytes + more
    if user is not None:
        command.ext = signed(fields, body, access_key=str(user), secret_key=secret_of(str(user)))
    command.body = body
    return encode_frame(command)


def _header(command: RemotingCommand, **changes: Any) -> bytes:
    """A frame whose JSON header is changed after signing."""
    fields = {"code": command.code, "opaque": 7, "flag": 0, "language": "JAVA", "version": 453}
    header = orjson.dumps(fields | {"extFields": command.ext} | changes)
    return _framed(header, command.body_bytes)


def _framed(header: bytes, body: bytes = b"") -> bytes:
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def test_headers_of_odd_shapes_let_nobody_in(tmp_path: Path) -> None:
    mine = asked("attacker", 310, send_fields("open", _KEY.format(1)), b"x")
    fields = dict(mine.ext or {})
    texts = orjson.dumps(fields).decode()
    twice = texts[:-1] + ',"b":"orders"}'
    start = '{"code":310,"opaque":7,"flag":0,"language":"JAVA","version":453,"extFields":'
    frames = {
        "no fields": _header(mine, extFields=None),
        "a topic that is a number": _header(mine, extFields={**fields, "b": 7}),
        "another topic in capitals": _header(mine, extFields={**fields, "B": "orders"}),
        "the long name as well": _header(mine, extFields={**fields, "topic": "orders"}),
        "account in another case": _header(mine, extFields={**fields, "accesskey": "root"}),
        "another account": _header(mine, extFields={**fields, "AccessKey": "root"}),
        "account null": _header(mine, extFields={**fields, "AccessKey": None}),
        "account true": _header(mine, extFields={**fields, "AccessKey": True}),
        "signature null": _header(mine, extFields={**fields, "Signature": None}),
        "signature number": _header(mine, extFields={**fields, "Signature": 1}),
        "signature empty": _header(mine, extFields={**fields, "Signature": ""}),
        "a key twice": _framed((start + twice + "}").encode(), b"x"),
        "fields twice": _framed((start + texts + ',"extFields":' + twice + "}").encode(), b"x"),
        "body changed": _header(mine)[:-1] + b"y",
    }
    closed = {
        "nested": _header(mine, extFields={**fields, "b": {"b": "open"}}),
        "a list": _header(mine, extFields=[fields]),
        "code too large": _header(mine, code=2**31),
        "code a text": _header(mine, code="310"),
        "surrogate": _framed((start + texts[:-1] + ',"b":"\\ud800"}}').encode(), b"x"),
    }

    async def run() -> dict[str, int | None]:
        async with lab(tmp_path) as found:
            raw = await found.connect()
            for _ in range(2):
                await raw.ask(asked("root", 310, send_fields("open", _KEY.format(9)), b"warm"))
            answers: dict[str, int | None] = {}
            for name, frame in (frames | closed).items():
                raw = await found.connect()
                raw.writer.write(frame)
                replies = await raw.replies(1)
                answers[name] = next(iter(replies.values())).code if replies else None
            assert found.broker.store_loop.store.max_offset("orders", 0) == 0
            return answers

    assert asyncio.run(run()) == dict.fromkeys(frames, 16) | dict.fromkeys(closed)


def test_the_mark_of_a_proof_under_another_name_takes_no_short_way(tmp_path: Path) -> None:
    async def run() -> int:
        async with lab(tmp_path) as found:
            raw = await found.connect()
            for _ in range(2):
                await raw.ask(asked("root", 310, send_fields("open", _KEY.format(9)), b"warm"))
            fields = send_fields("open", _KEY.format(1), n=f"{MARK}310:1:0123456789abcdef:0")
            reply = await raw.ask(asked("attacker", 310, fields, b"x"))
            return reply.code

    assert asyncio.run(run()) == 16


def test_what_the_guard_cannot_judge_reaches_no_handler(tmp_path: Path) -> None:
    async def run() -> tuple[int, int]:
        async with lab(tmp_path) as found:

            def broken(*_: Any, **__: Any) -> None:
                raise RuntimeError("broken")

            found.broker.handlers.table.guard = broken
            found.broker.handlers.table.verify_sends = None
            code = await found.code("root", 310, send_fields("orders", _KEY.format(1)), b"x")
            return code, found.broker.store_loop.store.max_offset("orders", 0)

    assert asyncio.run(run()) == (1, 0)


def test_oneway_requests_and_replies_that_nobody_asked_for_do_nothing(tmp_path: Path) -> None:
    async def run() -> int:
        async with lab(tmp_path) as found:
            raw = await found.connect()
            for flag in (ONEWAY_FLAG, RESPONSE_FLAG, ONEWAY_FLAG | RESPONSE_FLAG):
                for user in (None, "attacker"):
                    command = asked(user, 310, send_fields("orders", _KEY.format(1)), b"x")
                    command.flag = flag
                    raw.writer.write(encode_frame(command))
            assert (await raw.ask(asked("victim", 30, {"topic": "orders", "queueId": "0"}))).code == 0
            return found.broker.store_loop.store.max_offset("orders", 0)

    assert asyncio.run(run()) == 0


@pytest.mark.parametrize("name", ["a\U0001f600", "￿", "Ａ", "aA", "a\x7f"])
def test_fields_are_signed_in_the_order_of_java(name: str, tmp_path: Path) -> None:
    async def run() -> int:
        async with lab(tmp_path) as found:
            return await found.code("attacker", 30, {"topic": "open", "queueId": "0", name: "x", "b": "y"})

    assert asyncio.run(run()) == 0
