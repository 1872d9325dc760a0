"""Every status a client may be given, and for what: a client tries again, gives up or waits by it."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.grpc.backends.backend import SendOutcome
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, MessageType
from flaremq.grpc.rules.limits import CallLimits
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.connection import RequestTimeoutError
from tests.grpc.door_lab import DoorLab, lab_test, message, open_door, receive_request, resource


def answering(lab: DoorLab, code: int, **ext: Any) -> None:
    """Let the broker answer every request so."""

    async def ask(broker: str, request: RemotingCommand, *rest: Any, **more: Any) -> RemotingCommand:
        return RemotingCommand.response(code, "so it is", ext=ext)

    lab.backend.ask = ask  # type: ignore[method-assign]


async def status_of_receive(lab: DoorLab, request: Any, **more: Any) -> int:
    call = lab.new_call("ReceiveMessage", **more)
    frames = await lab.stream("ReceiveMessage", request, call)
    assert frames[-1].WhichOneof("content") == "delivery_timestamp"
    return int(frames[0].status.code)


@lab_test
async def test_what_a_broker_says_of_a_send_is_the_status_of_its_entry(lab: DoorLab) -> None:
    lab.topic("T")
    outcomes = {
        ResponseCode.SUCCESS: Code.OK,
        ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
        ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
        ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
        ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
        ResponseCode.SERVICE_NOT_AVAILABLE: Code.INTERNAL_SERVER_ERROR,
        ResponseCode.MESSAGE_ILLEGAL: Code.INTERNAL_SERVER_ERROR,
        ResponseCode.SYSTEM_ERROR: Code.INTERNAL_SERVER_ERROR,
        4711: Code.INTERNAL_SERVER_ERROR,
    }
    for code, expected in outcomes.items():

        async def send(*rest: Any, code: int = code) -> SendOutcome:
            return SendOutcome(code=code, remark="so it is", queue_offset=7)

        lab.backend.send = send  # type: ignore[method-assign]
        entry = await lab.send("T", message_id="ID")
        assert entry.status.code == expected, code
        is_stored = expected in (Code.OK, 50401, 50402, 50002)
        assert (entry.message_id, entry.offset) == (("ID", 7) if is_stored else ("", 0))
    for error, expected in (
        (RequestTimeoutError("slow"), Code.PROXY_TIMEOUT),
        (UnavailableError("closing"), Code.INTERNAL_SERVER_ERROR),
        (NotFoundError("gone"), Code.INTERNAL_SERVER_ERROR),
        (InvalidArgumentError("bad"), Code.BAD_REQUEST),
        (RequestError(ResponseCode.FLOW_CONTROL, "too fast"), Code.TOO_MANY_REQUESTS),
    ):

        async def fail(*rest: Any, error: Exception = error) -> SendOutcome:
            raise error

        lab.backend.send = fail  # type: ignore[method-assign]
        assert (await lab.send("T")).status.code == expected, error


@lab_test
async def test_messages_of_one_call_that_fare_differently_are_told_apart(lab: DoorLab) -> None:
    lab.topic("T")
    codes = iter((ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY))

    async def send(*rest: Any) -> SendOutcome:
        return SendOutcome(code=next(codes), remark=None)

    lab.backend.send = send  # type: ignore[method-assign]
    reply = await lab.call("SendMessage", classes.SendMessageRequest(messages=[message("T"), message("T")]))
    assert reply.status.code == Code.MULTIPLE_RESULTS
    assert [entry.status.code for entry in reply.entries] == [Code.OK, Code.TOO_MANY_REQUESTS]


@lab_test
async def test_a_send_is_judged_before_anything_is_stored(lab: DoorLab) -> None:
    lab.topic("T")
    lab.topic("F", "FIFO")
    lab.topic("X", "MIXED")
    lab.topic("closed", perm=4)

    async def code(*messages: Any) -> int:
        return int((await lab.call("SendMessage", classes.SendMessageRequest(messages=messages))).status.code)

    assert await code() == Code.MESSAGE_CORRUPTED
    assert await code(message("a b")) == Code.ILLEGAL_TOPIC
    assert await code(message("T"), message("F")) == Code.MESSAGE_CORRUPTED
    assert await code(message("T"), message("T", b"")) == Code.MESSAGE_BODY_EMPTY
    assert await code(message("T", bytes(4_194_305))) == Code.MESSAGE_BODY_TOO_LARGE
    assert await code(message("missing")) == Code.TOPIC_NOT_FOUND
    assert await code(message("closed")) == Code.FORBIDDEN
    conflict = Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert await code(message("T", message_group="g")) == conflict
    assert await code(message("F")) == conflict
    assert await code(message("T", delivery_timestamp=int(time.time() * 1000))) == conflict
    assert await code(message("T", message_type=MessageType.TRANSACTION)) == conflict
    assert await code(message("T", message_type=MessageType.MESSAGE_TYPE_UNSPECIFIED)) == Code.OK
    assert await code(message("F", message_group="g", message_type=MessageType.NORMAL)) == Code.OK  # by what is set
    for fields in ({}, {"message_group": "g"}, {"message_type": MessageType.TRANSACTION}):
        assert await code(message("X", **fields)) == Code.OK
    found = await lab.receive("T", "G")
    assert len(found) == 1


def test_types_are_not_compared_where_nobody_wants_that() -> None:
    async def scenario() -> None:
        async with open_door(limits=CallLimits(enable_topic_message_type_check=False)) as lab:
            lab.topic("T")
            assert (await lab.send("T", message_group="g")).status.code == Code.OK

    asyncio.run(scenario())


@lab_test
async def test_a_poll_is_judged_before_it_waits(lab: DoorLab) -> None:
    lab.topic("T")
    lab.topic("closed", perm=2)
    wrong = receive_request("T", "G", invisible=9)
    assert await status_of_receive(lab, wrong) == Code.ILLEGAL_INVISIBLE_TIME
    assert await status_of_receive(lab, receive_request("T", "G", invisible=43_201)) == Code.ILLEGAL_INVISIBLE_TIME
    none = receive_request("T", "G")
    none.ClearField("invisible_duration")
    assert await status_of_receive(lab, none) == Code.ILLEGAL_INVISIBLE_TIME
    for tag in ("A||", "|", "||A", "x" * 9000):
        expected = (Code.ILLEGAL_FILTER_EXPRESSION, Code.MESSAGE_NOT_FOUND)
        assert await status_of_receive(lab, receive_request("T", "G", tag=tag)) in expected
    assert await status_of_receive(lab, receive_request("T", "G", tag="x" * 9000)) == Code.ILLEGAL_FILTER_EXPRESSION
    assert await status_of_receive(lab, receive_request("T", "G", sql=" ")) == Code.ILLEGAL_FILTER_EXPRESSION
    assert await status_of_receive(lab, receive_request("missing", "G")) == Code.TOPIC_NOT_FOUND
    assert await status_of_receive(lab, receive_request("closed", "G")) == Code.FORBIDDEN
    assert await status_of_receive(lab, receive_request("a b", "G")) == Code.ILLEGAL_TOPIC
    assert await status_of_receive(lab, receive_request("T", "a b")) == Code.ILLEGAL_CONSUMER_GROUP
    answering(lab, ResponseCode.POLLING_FULL)
    assert await status_of_receive(lab, receive_request("T", "G")) == Code.TOO_MANY_REQUESTS
    answering(lab, ResponseCode.SYSTEM_BUSY)
    assert await status_of_receive(lab, receive_request("T", "G")) == Code.TOO_MANY_REQUESTS
    answering(lab, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    assert await status_of_receive(lab, receive_request("T", "G", sql="a >")) == Code.ILLEGAL_FILTER_EXPRESSION


def test_sql_that_cannot_be_read_is_said_to_be_so() -> None:
    async def scenario() -> None:
        async with open_door(enablePropertyFilter=True) as lab:
            lab.topic("T")
            wrong = receive_request("T", "G", sql="size >>> 1")
            assert await status_of_receive(lab, wrong) == Code.ILLEGAL_FILTER_EXPRESSION

    asyncio.run(scenario())


def test_a_group_that_does_not_exist_and_may_not_come_into_being() -> None:
    async def scenario() -> None:
        async with open_door(autoCreateSubscriptionGroup=False) as lab:
            lab.topic("T")
            assert await status_of_receive(lab, receive_request("T", "G")) == Code.CONSUMER_GROUP_NOT_FOUND

    asyncio.run(scenario())


def test_a_poll_ends_before_its_call_does() -> None:
    async def scenario() -> None:
        limits = CallLimits(min_long_polling_ms=300, max_long_polling_ms=2000)
        async with open_door(limits=limits) as lab:
            lab.topic("T")
            short = await status_of_receive(lab, receive_request("T", "G", poll=2), seconds=0.25)
            assert short == Code.ILLEGAL_POLLING_TIME
            call = lab.new_call("ReceiveMessage", seconds=0.9)
            frames = await lab.stream("ReceiveMessage", receive_request("T", "G", poll=2), call)
            assert frames[0].status.code == Code.MESSAGE_NOT_FOUND
            left = call.remaining()
            assert left is not None and left > 0  # the client has not given up
            unlimited = receive_request("T", "G", poll=0)
            assert await status_of_receive(lab, unlimited, seconds=None) == Code.MESSAGE_NOT_FOUND

    asyncio.run(scenario())


@lab_test
async def test_acknowledgements_are_answered_one_by_one(lab: DoorLab) -> None:
    lab.topic("T", queues=1)
    for _ in range(3):
        await lab.send("T")
    given = await lab.receive("T", "G")
    request = classes.AckMessageRequest(group=resource("G"), topic=resource("T"))
    assert (await lab.call("AckMessage", request)).status.code == Code.INTERNAL_SERVER_ERROR  # nothing to do
    for each in given:
        request.entries.add(
            message_id=each.system_properties.message_id, receipt_handle=each.system_properties.receipt_handle
        )
    request.entries[1].receipt_handle = "made up"
    reply = await lab.call("AckMessage", request)
    assert reply.status.code == Code.MULTIPLE_RESULTS
    assert [entry.status.code for entry in reply.entries] == [Code.OK, Code.INVALID_RECEIPT_HANDLE, Code.OK]
    assert [entry.message_id for entry in reply.entries] == [entry.message_id for entry in request.entries]
    assert await lab.ack("T", "G", given[0]) == Code.OK  # twice
    assert await lab.ack("U", "G", given[1]) == Code.INVALID_RECEIPT_HANDLE  # another topic's
    too_many = classes.AckMessageRequest(group=resource("G"), topic=resource("T"))
    too_many.entries.extend([request.entries[0]] * 1025)
    assert (await lab.call("AckMessage", too_many)).status.code == Code.BAD_REQUEST


@lab_test
async def test_a_change_is_judged_and_may_be_to_nothing(lab: DoorLab) -> None:
    lab.topic("T", queues=1)
    await lab.send("T")
    (given,) = await lab.receive("T", "G")
    for seconds in (-1, 43_201):
        assert (await lab.change("T", "G", given, seconds)).status.code == Code.ILLEGAL_INVISIBLE_TIME
    assert (await lab.change("T", "G", given, 1, handle="made up")).status.code == Code.INVALID_RECEIPT_HANDLE
    changed = await lab.change("T", "G", given, 0)
    assert changed.status.code == Code.OK
    again = await lab.receive_soon("T", "G")
    assert again.system_properties.delivery_attempt == 2
    assert await lab.ack("T", "G", again) == Code.OK


@lab_test
async def test_a_delayed_message_is_taken_back(lab: DoorLab) -> None:
    lab.topic("D", "DELAY")
    lab.topic("T")
    entry = await lab.send("D", delivery_timestamp=int(time.time() * 1000) + 60_000)

    async def recall(handle: str, topic: str = "D") -> Any:
        return await lab.call(
            "RecallMessage", classes.RecallMessageRequest(topic=resource(topic), recall_handle=handle)
        )

    assert (await recall(entry.recall_handle, "T")).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert (await recall("made up")).status.code == Code.INTERNAL_SERVER_ERROR
    elsewhere = base64.urlsafe_b64encode(b"v1 D broker-z 1 ID").decode()
    assert (await recall(elsewhere)).status.code == Code.INTERNAL_SERVER_ERROR
    off = await recall(entry.recall_handle)
    assert (off.status.code, "recall" in off.status.message) == (Code.FORBIDDEN, True)  # unless recallMessageEnable


def test_a_message_that_was_taken_back_is_never_received() -> None:
    async def scenario() -> None:
        async with open_door(recallMessageEnable=True) as lab:
            lab.topic("D", "DELAY")
            due = int(time.time() * 1000) + 1500
            lost = await lab.send("D", b"lost", delivery_timestamp=due)
            await lab.send("D", b"kept", delivery_timestamp=due)
            request = classes.RecallMessageRequest(topic=resource("D"), recall_handle=lost.recall_handle)
            reply = await lab.call("RecallMessage", request)
            assert (reply.status.code, reply.message_id) == (Code.OK, lost.message_id)
            assert (await lab.receive_soon("D", "G")).body == b"kept"
            assert await lab.receive("D", "G", poll=0.5) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("is_named", [True, False])
def test_consuming_by_offsets(is_named: bool) -> None:
    async def scenario() -> None:
        async with open_door() as lab:
            lab.topic("T", queues=1)
            for number in range(5):
                await lab.send("T", b"%d" % number)
            queue = classes.MessageQueue(topic=resource("T"), id=0)
            if is_named:
                queue.broker.name = lab.backend._name
            await _by_offsets(lab, queue)

    asyncio.run(scenario())


async def _by_offsets(lab: DoorLab, queue: Any) -> None:
    async def query(policy: int, **more: Any) -> Any:
        request = classes.QueryOffsetRequest(message_queue=queue, query_offset_policy=policy, **more)
        return await lab.call("QueryOffset", request)

    assert [(await query(policy)).offset for policy in (0, 1)] == [0, 5]
    assert (await query(2)).status.code == Code.BAD_REQUEST
    assert (await query(2, timestamp=classes.Timestamp(seconds=1))).offset == 0
    get = classes.GetOffsetRequest(group=resource("G"), message_queue=queue)
    update = classes.UpdateOffsetRequest(group=resource("G"), message_queue=queue, offset=3)
    assert (await lab.call("UpdateOffset", update)).status.code == Code.OK
    assert (await lab.call("GetOffset", get)).offset == 3
    update.offset = -1
    assert (await lab.call("UpdateOffset", update)).status.code == Code.ILLEGAL_OFFSET
    pull = classes.PullMessageRequest(group=resource("G"), message_queue=queue, offset=3, batch_size=32)
    frames = await lab.stream("PullMessage", pull)
    assert frames[0].status.code == Code.OK
    assert [frame.message.body for frame in frames[1:-1]] == [b"3", b"4"]
    assert not frames[1].message.system_properties.receipt_handle
    assert frames[-1].next_offset == 5
    pull.offset = 5
    frames = await lab.stream("PullMessage", pull)
    assert (frames[0].status.code, frames[-1].next_offset) == (Code.MESSAGE_NOT_FOUND, 5)
    queue.id = 1
    assert (await query(1)).status.code == Code.BAD_REQUEST
    queue.id = 0
    queue.broker.name = "broker-z"
    assert (await query(1)).status.code == Code.BAD_REQUEST
