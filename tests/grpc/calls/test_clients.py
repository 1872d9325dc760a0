"""Clients: what they are told when they tell what they are, how long they are there, and what is asked of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flaremq.errors import UnavailableError
from flaremq.grpc.call import GrpcError, StatusCode
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import ClientType, Code
from flaremq.grpc.rules.limits import CallLimits
from flaremq.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection
from tests.grpc.door_lab import (
    DoorLab,
    FakeStream,
    consumer_settings,
    lab_test,
    open_door,
    producer_settings,
    resource,
)


async def refused(stream: FakeStream) -> GrpcError:
    assert stream.task is not None
    with pytest.raises(GrpcError) as caught:
        await stream.task
    return caught.value


async def heartbeat(lab: DoorLab, kind: ClientType, group: str = "", client: str = "c1") -> int:
    request = classes.HeartbeatRequest(client_type=kind)
    if group:
        request.group.name = group
    return int((await lab.call("Heartbeat", request, client)).status.code)


async def terminate(lab: DoorLab, client: str = "c1") -> int:
    return int(
        (await lab.call("NotifyClientTermination", classes.NotifyClientTerminationRequest(), client)).status.code
    )


def members(lab: DoorLab, group: str) -> list[str]:
    return sorted(lab.state.consumers.client_ids(group))


def way_to(lab: DoorLab, group: str = "G", client: str = "c1") -> Connection:
    """By which the broker asks a client."""
    connection = lab.state.consumers.find_connection(group, client)
    assert connection is not None
    return connection


@lab_test
async def test_a_producer_is_told_how_to_try_again(lab: DoorLab) -> None:
    settings = producer_settings("T", "U")
    settings.publishing.topics[1].name = "not-there"
    settings.access_point.addresses.add(host="h", port=1)
    settings.request_timeout.seconds = 3
    told = await (await lab.telemetry(settings)).next()
    assert told.status.code == Code.OK
    answer = told.settings
    assert (answer.client_type, answer.access_point, answer.request_timeout.seconds) == (
        ClientType.PRODUCER,
        settings.access_point,
        3,
    )
    policy = answer.backoff_policy
    assert policy.max_attempts == 3
    assert (policy.exponential_backoff.initial.nanos, policy.exponential_backoff.max.seconds) == (10_000_000, 1)
    assert policy.exponential_backoff.multiplier == 2
    assert [topic.name for topic in answer.publishing.topics] == ["T", "not-there"]
    assert answer.publishing.max_body_size == 4_194_304
    assert answer.publishing.validate_message_type
    assert not answer.metric.on


@pytest.mark.parametrize("push", [True, False])
def test_a_consumer_is_told_what_its_group_says(push: bool) -> None:
    async def scenario() -> None:
        async with open_door() as lab:
            lab.topic("T")
            lab.group("ordered", consume_message_orderly=True, retry_max_times=2)
            told = (await (await lab.telemetry(consumer_settings("ordered", "T", push=push))).next()).settings
            assert told.subscription.fifo
            assert told.subscription.receive_batch_size == 32
            assert told.subscription.long_polling_timeout.seconds == 20
            assert told.backoff_policy.max_attempts == 3
            steps = [step.seconds for step in told.backoff_policy.customized_backoff.next]
            assert steps[:5] == [1, 5, 10, 30, 60]
            assert len(steps) == 18
            other = (await (await lab.telemetry(consumer_settings("G", "T", push=push), "c2")).next()).settings
            assert (other.subscription.fifo, other.backoff_policy.max_attempts) == (False, 17)
            policy = {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 2000, "max": 60_000, "multiplier": 3},
            }
            lab.group("grows", group_retry_policy=policy)
            grows = (await (await lab.telemetry(consumer_settings("grows", "T", push=push), "c3")).next()).settings
            backoff = grows.backoff_policy.exponential_backoff
            assert (backoff.initial.seconds, backoff.max.seconds, backoff.multiplier) == (2, 60, 3)

    asyncio.run(scenario())


@lab_test
async def test_settings_that_are_wrong_end_the_stream(lab: DoorLab) -> None:
    none = classes.Settings(client_type=ClientType.PRODUCER)
    lite = consumer_settings("G", "T")
    lite.client_type = ClientType.LITE_PUSH_CONSUMER
    pull = consumer_settings("G", "T")
    pull.client_type = ClientType.PULL_CONSUMER
    mixed = producer_settings("T")
    mixed.client_type = ClientType.PUSH_CONSUMER
    many = producer_settings(*[f"T{number}" for number in range(2049)])
    large = consumer_settings("G", "T", tag="x" * 300_000)
    properties = producer_settings("T")
    properties.client_properties.update({str(number): "v" for number in range(33)})
    wrong = StatusCode.INVALID_ARGUMENT
    for settings, status in (
        (none, wrong), (mixed, wrong), (many, wrong), (large, wrong), (properties, wrong),
        (producer_settings("a b"), wrong), (consumer_settings("a b", "T"), wrong), (consumer_settings("", "T"), wrong),
        (consumer_settings("G", "a b"), wrong), (lite, StatusCode.INTERNAL), (pull, StatusCode.INTERNAL),
    ):  # fmt: skip
        assert (await refused(await lab.telemetry(settings))).status is status
    assert len(lab.service.sessions) == 0


def test_a_group_that_may_not_come_into_being_ends_the_stream() -> None:
    async def scenario() -> None:
        async with open_door(autoCreateSubscriptionGroup=False) as lab:
            error = await refused(await lab.telemetry(consumer_settings("G", "T")))
            assert (error.status, "group not found" in error.message) == (StatusCode.INVALID_ARGUMENT, True)

    asyncio.run(scenario())


def test_the_settings_of_all_clients_have_so_much_room() -> None:
    async def scenario() -> None:
        async with open_door(limits=CallLimits(settings_bytes_max=3000, clients_max=10)) as lab:
            topics = [f"T{number}" for number in range(100)]
            first = await lab.telemetry(producer_settings(*topics))
            await first.next()
            for _ in range(5):  # the same client again takes no more
                first.incoming.put_nowait(classes.TelemetryCommand(settings=producer_settings(*topics)))
                await first.next()
            errors = 0
            for number in range(5):
                stream = await lab.telemetry(producer_settings(*topics), f"p{number}")
                assert stream.task is not None
                told = asyncio.ensure_future(stream.sent.get())
                await asyncio.wait([told, stream.task], return_when="FIRST_COMPLETED")
                if not told.done():
                    told.cancel()
                    errors += (await refused(stream)).status is StatusCode.RESOURCE_EXHAUSTED
            assert errors == 2  # four clients have room
            await terminate(lab)
            await (await lab.telemetry(producer_settings(*topics), "late")).next()

    asyncio.run(scenario())


def test_clients_have_a_limit() -> None:
    async def scenario() -> None:
        async with open_door(limits=CallLimits(clients_max=3)) as lab:
            codes = [await heartbeat(lab, ClientType.PUSH_CONSUMER, "G", f"c{number}") for number in range(5)]
            assert codes == [Code.OK] * 3 + [Code.TOO_MANY_REQUESTS] * 2
            assert await terminate(lab, "c0") == Code.OK
            assert await heartbeat(lab, ClientType.PUSH_CONSUMER, "G", "c9") == Code.OK

    asyncio.run(scenario())


@lab_test
async def test_a_heartbeat_needs_no_settings(lab: DoorLab) -> None:
    assert await heartbeat(lab, ClientType.PUSH_CONSUMER, "G") == Code.OK
    assert members(lab, "G") == ["c1"]
    assert await heartbeat(lab, ClientType.SIMPLE_CONSUMER, "G", "c2") == Code.OK
    assert await heartbeat(lab, ClientType.PRODUCER, client="p1") == Code.OK
    assert await heartbeat(lab, ClientType.PUSH_CONSUMER, client="c3") == Code.ILLEGAL_CONSUMER_GROUP
    assert await heartbeat(lab, ClientType.CLIENT_TYPE_UNSPECIFIED, client="x") == Code.UNRECOGNIZED_CLIENT_TYPE
    assert members(lab, "G") == ["c1", "c2"]


@lab_test
async def test_a_client_that_says_goodbye_is_gone(lab: DoorLab) -> None:
    await (await lab.telemetry(consumer_settings("G", "T"))).next()
    assert members(lab, "G") == ["c1"]
    assert await terminate(lab) == Code.OK
    await asyncio.sleep(0)
    assert members(lab, "G") == []
    assert await terminate(lab) == Code.UNRECOGNIZED_CLIENT_TYPE


@lab_test
async def test_a_client_whose_stream_breaks_has_a_while_to_come_back(lab: DoorLab) -> None:
    now = asyncio.get_running_loop().time
    stream = await lab.telemetry(consumer_settings("G", "T"))
    await stream.next()
    await stream.close()
    lab.service.sessions.expire(now() + 14)
    assert members(lab, "G") == ["c1"]
    again = await lab.telemetry(consumer_settings("G", "T"))
    await again.next()
    lab.service.sessions.expire(now() + 30)
    assert members(lab, "G") == ["c1"]  # it came back
    await again.close()
    lab.service.sessions.expire(now() + 16)
    await asyncio.sleep(0)
    assert members(lab, "G") == []


@lab_test
async def test_a_silent_client_is_gone_after_two_minutes(lab: DoorLab) -> None:
    now = asyncio.get_running_loop().time
    stream = await lab.telemetry(consumer_settings("G", "T"))
    await stream.next()
    lab.service.sessions.expire(now() + 119)
    assert members(lab, "G") == ["c1"]
    lab.service.sessions.expire(now() + 121)
    await asyncio.sleep(0)
    assert members(lab, "G") == []
    assert stream.task is not None
    with pytest.raises(asyncio.CancelledError):  # so that a client that was only asleep tells its settings again
        await stream.task
    await (await lab.telemetry(consumer_settings("G", "T"))).next()
    assert members(lab, "G") == ["c1"]


@lab_test
async def test_an_operator_s_question_is_put_to_the_client(lab: DoorLab) -> None:
    stream = await lab.telemetry(consumer_settings("G", "T"))
    await stream.next()
    ask = RemotingCommand.request(
        RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true"}
    )
    answering = asyncio.ensure_future(way_to(lab).request(ask, 5))
    command = (await stream.next()).print_thread_stack_trace_command
    answer = classes.ThreadStackTrace(nonce=command.nonce, thread_stack_trace="main: waits")
    stream.incoming.put_nowait(classes.TelemetryCommand(thread_stack_trace=answer))
    info = ConsumerRunningInfo.from_json((await answering).body_bytes)
    assert info.jstack == "main: waits"
    assert info.properties["PROP_CLIENT_VERSION"] == "5.1.2"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (Code.OK, "CR_SUCCESS"),
        (Code.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"),
        (Code.MESSAGE_CORRUPTED, "CR_RETURN_NULL"),
        (Code.NOT_IMPLEMENTED, "CR_THROW_EXCEPTION"),
    ],
)
def test_a_message_is_shown_to_a_client_to_see_what_it_makes_of_it(code: Code, result: str) -> None:
    async def scenario() -> None:
        async with open_door() as lab:
            lab.topic("T", queues=1)
            await lab.send("T", b"look", tag="A")
            stream = await lab.telemetry(consumer_settings("G", "T"))
            await stream.next()
            record = lab.state.store_loop.store.get("T", queue_id=0, offset=0, max_count=1).messages[0]
            ask = RemotingCommand.request(
                RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "G", "clientId": "c1"}, bytes(record.record)
            )
            answering = asyncio.ensure_future(way_to(lab).request(ask, 5))
            command = (await stream.next()).verify_message_command
            assert (command.message.body, command.message.system_properties.tag) == (b"look", "A")
            stream.incoming.put_nowait(
                classes.TelemetryCommand(
                    status=classes.Status(code=code, message="so"),
                    verify_message_result=classes.VerifyMessageResult(nonce=command.nonce),
                )
            )
            answer: Any = ConsumeMessageDirectlyResult.from_json((await answering).body_bytes)
            assert answer.consume_result == result

    asyncio.run(scenario())


def test_a_client_that_does_not_answer_is_waited_for_only_so_long() -> None:
    async def scenario() -> None:
        async with open_door(limits=CallLimits(client_answer_ms=50)) as lab:
            stream = await lab.telemetry(consumer_settings("G", "T"))
            await stream.next()
            ask = RemotingCommand.request(RequestCode.GET_CONSUMER_RUNNING_INFO, {"jstackEnable": "true"})
            assert (await way_to(lab).request(ask, 5)).code == ResponseCode.CONSUME_MSG_TIMEOUT
            stray = classes.TelemetryCommand(thread_stack_trace=classes.ThreadStackTrace(nonce="nobody asked"))
            stream.incoming.put_nowait(stray)
            stream.incoming.put_nowait(classes.TelemetryCommand(settings=consumer_settings("G", "T")))
            while (await stream.next()).WhichOneof("command") != "settings":
                pass

    asyncio.run(scenario())


@lab_test
async def test_a_stream_without_a_client_s_name_gets_that_word_and_ends(lab: DoorLab) -> None:
    stream = await lab.telemetry(producer_settings("T"), "")
    assert (await stream.next()).status.code == Code.CLIENT_ID_REQUIRED
    assert stream.task is not None
    await stream.task


@lab_test
async def test_there_are_no_lite_topics(lab: DoorLab) -> None:
    request = classes.SyncLiteSubscriptionRequest(topic=resource("T"), group=resource("G"))
    assert (await lab.call("SyncLiteSubscription", request)).status.code == Code.NOT_IMPLEMENTED


@lab_test
async def test_a_client_that_could_not_be_registered_is_gone_soon_after_its_stream(lab: DoorLab) -> None:
    async def fails(*_: Any) -> None:
        raise UnavailableError("no broker answers")

    lab.backend.register = fails  # type: ignore[method-assign]
    stream = await lab.telemetry(consumer_settings("G", "T"))
    assert (await refused(stream)).status is StatusCode.INTERNAL
    assert len(lab.service.sessions) == 1
    lab.service.sessions.expire(asyncio.get_running_loop().time() + 16)
    assert len(lab.service.sessions) == 0
