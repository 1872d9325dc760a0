"""Whatever a stranger sends to the port of a controller: an answer, no traceback, and a state that is sound."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flaremq.clock import ManualClock
from flaremq.controller.groups import ReplicaGroup, groups_from_json, groups_to_json
from flaremq.controller.office import Office
from flaremq.controller.options import ControllerOptions
from flaremq.controller.requests.admin import AdminHandlers
from flaremq.controller.requests.broker import BrokerHandlers
from flaremq.controller.stores.store import Follow, Lead, Peer
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.handlers import HandlerTable
from tests.support.fake_connection import FakeConnection, ask

CODES = [904, 1001, 1002, 1003, 1004, 1005, 1006, 1009, 1010, 1011, 1012, 1013]
FIELDS = [
    "clusterName",
    "brokerName",
    "brokerId",
    "brokerAddr",
    "brokerAddress",
    "masterBrokerId",
    "masterEpoch",
    "appliedBrokerId",
    "registerCheckCode",
    "designateElect",
    "invokeTime",
    "epoch",
    "maxOffset",
    "confirmOffset",
    "heartbeatTimeoutMills",
    "electionPriority",
    "brokerControllerIdsToClean",
    "isCleanLivingBroker",
]
NUMBERS = ["-1", "0", "1", "2", "3", str(2**31 - 1), str(2**63 - 1), str(-(2**63)), str(2**63), "x", "", "1e3"]
TEXTS = ["c", "b", "a:1", "a:2", "true", "false", "1;2", ";", "x" * 600, "\x00", "\ud83d\ude00", "a\nb", "../../etc"]
BODIES = [
    b"",
    b"{}",
    b"[]",
    b'["b"]',
    b"[1]",
    b"null",
    b"\xff\xfe",
    b'{"syncStateSet":[1],"syncStateSetEpoch":1}',
    b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}',
    b'{"syncStateSet":["1","2"],"syncStateSetEpoch":"2"}',
    b'{"syncStateSet":{"a":1}}',
    b'{"syncStateSet":[null,1.5,true]}',
    b"enableElectUncleanMaster=true",
    b"bindAddress=0.0.0.0",
    b"\\u12",
    b"[" * 5000,
]
REQUESTS = st.tuples(
    st.sampled_from(CODES),
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(NUMBERS + TEXTS)),
    st.sampled_from(BODIES),
)
# Those that get somewhere, so that the odd ones find a state to spoil.
GOOD = [
    (1013, {"appliedBrokerId": "1", "registerCheckCode": "x"}, b""),
    (1003, {"brokerId": "1", "brokerAddress": "a:1"}, b""),
    (904, {"brokerId": "1", "brokerAddr": "a:1"}, b""),
    (1002, {"brokerId": "1"}, b""),
    (1013, {"appliedBrokerId": "2", "registerCheckCode": "y"}, b""),
    (1003, {"brokerId": "2", "brokerAddress": "a:2"}, b""),
    (904, {"brokerId": "2", "brokerAddr": "a:2"}, b""),
]


class MemoryStore:
    """Keeps nothing, and leads."""

    leader = Peer("n0", "127.0.0.1:1")
    peers = (leader,)
    is_leading = True

    async def start(self, me: Peer, lead: Lead, follow: Follow) -> None:
        raise NotImplementedError

    async def save(self, group: ReplicaGroup) -> None:
        assert groups_from_json(groups_to_json([group])) == {group.broker_name: group}

    async def stop(self) -> None:
        raise NotImplementedError


async def answers(requests: Iterable[tuple[int, dict[str, str], bytes]]) -> list[RemotingCommand]:
    options = ControllerOptions()
    office = Office(MemoryStore(), options, ManualClock(), lambda notice: None)
    office.lead([])
    table = HandlerTable()
    BrokerHandlers(office, lambda: None).register(table)
    AdminHandlers(office, options).register(table)
    connection = FakeConnection()
    replies = []
    for code, fields, body in requests:
        request = RemotingCommand.request(code, {"clusterName": "c", "brokerName": "b", **fields}, body)
        replies.append(await ask(table, connection, request))
        await office.replace_lost_masters()
    connection.close()
    await office.replace_lost_masters()
    return replies


@settings(max_examples=150, deadline=None)
@given(st.lists(REQUESTS, max_size=12), st.integers(0, len(GOOD)))
def test_odd_requests_get_an_answer_and_leave_a_sound_state(
    requests: list[tuple[int, dict[str, str], bytes]], begun: int
) -> None:
    failures: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = failures.append  # type: ignore[method-assign]
    log = logging.getLogger("flaremq.remoting.handlers")
    log.addHandler(handler)
    try:
        replies = asyncio.run(answers([*GOOD[:begun], *requests]))
    finally:
        log.removeHandler(handler)
    assert [record.getMessage() for record in failures] == []
    assert len(replies) == begun + len(requests)


def test_the_good_ones_get_somewhere() -> None:
    assert [reply.code for reply in asyncio.run(answers(GOOD))] == [0] * len(GOOD)


@pytest.mark.parametrize("code", CODES)
def test_request_without_any_field_is_answered(code: int) -> None:
    async def bare() -> RemotingCommand:
        options = ControllerOptions()
        office = Office(MemoryStore(), options, ManualClock(), lambda notice: None)
        office.lead([])
        table = HandlerTable()
        BrokerHandlers(office, lambda: None).register(table)
        AdminHandlers(office, options).register(table)
        return await ask(table, FakeConnection(), RemotingCommand.request(code))

    free = {RequestCode.CONTROLLER_GET_METADATA_INFO, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA}
    free |= {RequestCode.UPDATE_CONTROLLER_CONFIG, RequestCode.GET_CONTROLLER_CONFIG}
    assert (asyncio.run(bare()).code == 0) == (code in free)
