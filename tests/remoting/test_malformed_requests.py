"""One rule for bad input, door by door: a request with one malformed field or body gets a reply whose code and remark
say what is wrong. Never a Python exception by name, a traceback in the log, or silence.

Unlike the random nonsense of ``test_hostile``, each field of each request is malformed alone, beside good ones: it is
that field's check which answers, not that of the header's first field.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from flaremq.message import properties as names
from flaremq.message.message import Message
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.custom_header import ExtField, ext_fields, parse_flag
from flaremq.remoting.client import RemotingClient
from tests.support.broker_lab import BrokerLab, run
from tests.support.header_table import REQUEST_HEADERS

GOOD = {
    "topic": "orders", "consumerGroup": "readers", "group": "readers", "producerGroup": "writers",
    "defaultTopic": "TBW102", "subscription": "*", "expressionType": "TAG", "queueId": "0", "maxMsgNums": "1",
    "invisibleTime": "1000", "brokerName": "broker-a", "clusterName": "DefaultCluster", "cluster": "DefaultCluster",
    "brokerAddr": "127.0.0.1:1", "brokerAddress": "127.0.0.1:1", "perm": "6", "topicFilterType": "SINGLE_TAG",
    "readQueueNums": "1", "writeQueueNums": "1", "defaultTopicQueueNums": "1", "key": "k", "maxNum": "1",
    "suspendTimeoutMillis": "0", "pollTime": "0", "brokerId": "1",
}  # fmt: skip
NO_NUMBERS = ("x", "1e5", "1_0", " 1", "²", "9" * 5000, "-", "\x00")
NUMBERS = ("", "-1", "2147483647", "-2147483648", str(2**63 - 1), str(-(2**63)))
TEXTS = ("", " ", "\x01\x02", "../../evil", "%RETRY%", "x" * 33_000, "\ud83d\ude00", "[]", "{", "v1 a b")
BODIES = (b"", b"{", b"{}", b"[]", b"null", b"0", b"\xff\xfe", b'{"a":' * 2000)
LETTERED = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
# The outcome of a transaction: clients send it one-way.
UNANSWERED = frozenset({RequestCode.END_TRANSACTION})
# Always answered whole, so nobody reads which page is asked for.
NOT_READ = frozenset({RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG})
WAITING = frozenset({"suspendTimeoutMillis", "pollTime"})  # a request that asks to wait does
PYTHON = re.compile(r"\w(Error|Exception): |Traceback|<class|object at 0x|NoneType|\n")


def rows_of(code: RequestCode) -> tuple[ExtField, ...]:
    """The fields of a request, under the names it has on the wire."""
    header = REQUEST_HEADERS.get(code)
    rows = () if header is None else ext_fields(header)
    if code in LETTERED:
        return tuple(row._replace(name=letter) for row, letter in zip(rows, "abcdefghijklmn", strict=True))
    return rows


def good_fields(code: RequestCode) -> dict[str, str]:
    header = REQUEST_HEADERS.get(code)
    long_names = () if header is None else [row.name for row in ext_fields(header)]
    return {row.name: GOOD.get(name) or plain(row) for row, name in zip(rows_of(code), long_names, strict=True)}


def plain(row: ExtField) -> str:
    return "x" if row.parse is None else "false" if row.parse is parse_flag else "0"


def odd_fields(code: RequestCode) -> Iterator[RemotingCommand]:
    """Good fields but one, which is absent or odd."""
    good = good_fields(code)
    for row in rows_of(code):
        yield RemotingCommand.request(code, {name: value for name, value in good.items() if name != row.name})
        odd = TEXTS if row.parse is None else ("", "x") if row.parse is parse_flag else NUMBERS
        for value in odd if row.name not in WAITING else ():
            yield RemotingCommand.request(code, good | {row.name: value})


def odd_requests() -> Iterator[RemotingCommand]:
    """For each code: odd fields, no fields, odd bodies."""
    for code in sorted(set(RequestCode) - UNANSWERED):
        yield from odd_fields(code)
        for body in BODIES:
            yield RemotingCommand.request(code, {}, body)
            yield RemotingCommand.request(code, good_fields(code), body)


def wrong_numbers() -> Iterator[tuple[str, RemotingCommand]]:
    """Each number of each request written wrongly, and its name."""
    for code in sorted(set(REQUEST_HEADERS) - UNANSWERED - NOT_READ):
        for row in rows_of(code):
            for value in NO_NUMBERS if row.parse not in (None, parse_flag) else ():
                yield row.name, RemotingCommand.request(code, good_fields(code) | {row.name: value})


def check_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    found = [(record.getMessage(), repr(record.exc_info[1])) for record in caplog.records if record.exc_info]
    assert found == []


async def sweep(client: RemotingClient, *addresses: str) -> None:
    for request in odd_requests():
        for address in addresses:
            reply = await client.request(address, request, 20)
            shown = (request.code, request.ext, request.body_bytes[:40], reply.code, reply.remark)
            assert reply.is_response and not PYTHON.search(reply.remark or ""), shown
            assert reply.code == 0 or reply.remark, shown
    for name, request in wrong_numbers():
        for address in addresses:
            reply = await client.request(address, request, 20)
            if reply.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                shown = (request.code, name, (request.ext or {}).get(name), reply.code, reply.remark)
                assert reply.code == ResponseCode.SYSTEM_ERROR and f"<{name}>" in str(reply.remark), shown


def test_broker_and_name_server_say_what_is_wrong_with_each_field(caplog: pytest.LogCaptureFixture) -> None:
    async def attack(lab: BrokerLab) -> None:
        await lab.sent("orders")
        await sweep(lab.client, lab.address, lab.ephemeral.name_server)
        assert (await lab.send("orders")).code == 0

    with caplog.at_level(logging.WARNING):
        run(attack)
    check_no_traceback(caplog)


def test_controller_says_what_is_wrong_with_each_field(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = ControllerOptions.from_properties({"listenPort": "0", "controllerStorePath": str(tmp_path)})

    async def attack() -> None:
        controller, client = ControllerService(options), RemotingClient()
        await controller.start()
        try:
            await sweep(client, controller.address)
        finally:
            await client.close()
            await controller.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(attack())
    check_no_traceback(caplog)


NUMBER_PROPERTIES = (
    names.DELAY, names.REAL_QUEUE_ID, names.TRANSACTION_CHECK_TIMES, names.TRANSACTION_PREPARED_QUEUE_OFFSET,
    names.CHECK_IMMUNITY_SECONDS, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES, names.INNER_BASE, names.INNER_NUM,
    "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES",
)  # fmt: skip


def test_message_whose_numbers_are_none_is_stored_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def attack(lab: BrokerLab) -> None:
        codes = set()
        for name in NUMBER_PROPERTIES:
            for value in NO_NUMBERS:
                for more in ("", "TRAN_MSG\x01true\x02PGROUP\x01writers\x02"):
                    reply = await lab.send("odd", properties=f"{name}\x01{value}\x02UNIQ_KEY\x01A\x02{more}")
                    codes.add(reply.code)
                    assert not PYTHON.search(reply.remark or ""), (name, value, reply.remark)
                    if reply.code == 0:
                        record = lab.record(reply)
                        Message.from_properties(record.topic, record.body, record.properties)
        assert codes == {0, ResponseCode.MESSAGE_ILLEGAL}
        await lab.ephemeral.advanced(hours=3)

    with caplog.at_level(logging.WARNING):
        run(attack)
    check_no_traceback(caplog)
