"""Questions passed on to clients, and what becomes of those who do not answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flaremq.errors import UnavailableError
from flaremq.java_json import parse_java_json
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.stats import GetConsumerStatusBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import RequestTimeoutError
from flaremq.remoting.handlers import HandlerTable
from tests.support.admin_lab import AdminLab
from tests.support.broker_lab import BrokerLab, until
from tests.support.broker_lab import run as run_broker
from tests.support.fake_connection import FakeConnection

RUNNING_INFO = {"consumerGroup": "G", "clientId": "client-1", "jstackEnable": "false"}


class SilentConnection(FakeConnection):
    """A peer that lets every request time out, or whose connection breaks."""

    def __init__(self, error: UnavailableError) -> None:
        super().__init__()
        self.error = error

    async def request(self, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        self.asked.append(command)
        self.timeout = timeout
        raise self.error


def test_running_info_is_asked_of_the_client_and_passed_back_untouched(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            client = lab.online("G")
            odd = b'{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{}}}'
            client.answers.append(RemotingCommand.response(remark="as it is", body=odd))
            reply = await lab.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **RUNNING_INFO)
            assert (reply.code, reply.remark, reply.body_bytes) == (0, "as it is", odd)
            [asked] = client.asked
            assert (asked.code, asked.ext, asked.is_oneway) == (
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                RUNNING_INFO,
                False,
            )

    asyncio.run(run())


def test_error_of_the_client_is_passed_back_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            client = lab.online("G")
            client.answers.append(RemotingCommand.response(ResponseCode.SYSTEM_ERROR, "not here"))
            reply = await lab.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **RUNNING_INFO)
            assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "not here")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestTimeoutError("no reply in time"), ResponseCode.CONSUME_MSG_TIMEOUT),
        (UnavailableError("the connection was closed"), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_client_that_does_not_answer_is_reported(tmp_path: Path, error: UnavailableError, code: ResponseCode) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            client = SilentConnection(error)
            lab.online("G", connection=client)
            reply = await lab.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **RUNNING_INFO)
            assert reply.code == code
            assert "<G> <client-1>" in (reply.remark or "")
            assert client.timeout == 10.0

    asyncio.run(run())


def test_client_that_is_offline_or_too_old_is_not_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            reply = await lab.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **RUNNING_INFO)
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert reply.remark == "The Consumer <G> <client-1> not online"
            old = lab.online("G", version=61)
            reply = await lab.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **RUNNING_INFO)
            assert reply.code == ResponseCode.SYSTEM_ERROR and "too low" in (reply.remark or "")
            reply = await lab.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **RUNNING_INFO | {"clientId": "other"})
            assert "not online" in (reply.remark or "")
            assert old.asked == []

    asyncio.run(run())


def test_message_to_be_consumed_directly_travels_as_its_record(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.topic("T")
            client = lab.online("G")
            put = await lab.send("T", 2, b"take this")
            client.answers.append(RemotingCommand.response(body=b'{"consumeResult":"CR_SUCCESS"}'))
            reply = await lab.ask(
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                consumerGroup="G",
                clientId="client-1",
                msgId=put.message_id,
                topic="T",
            )
            assert reply.body_bytes == b'{"consumeResult":"CR_SUCCESS"}'
            [asked] = client.asked
            assert MessageExt(asked.body_bytes).body == b"take this"
            assert asked.ext is not None and asked.ext["brokerName"] == "broker-a"
            assert (asked.ext["topicSysFlag"], asked.ext["groupSysFlag"]) == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize("message_id", ["7F00000100002A9F00000000000F0000", "nonsense", ""])
def test_direct_consumption_of_no_message_is_refused(tmp_path: Path, message_id: str) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            client = lab.online("G")
            ext = {"consumerGroup": "G", "clientId": "client-1", "msgId": message_id}
            reply = await lab.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, **ext)
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert client.asked == []

    asyncio.run(run())


# Consumer status


def status_of(offset: int) -> RemotingCommand:
    table = {MessageQueue(topic="T", broker_name="broker-a", queue_id=0): offset}
    return RemotingCommand.response(body=GetConsumerStatusBody(message_queue_table=table).to_json())


def test_status_is_collected_from_every_client_that_answers(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for name, offset in (("one", 1), ("two", 2)):
                lab.online("G", name).answers.append(status_of(offset))
            lab.online("G", "silent", connection=SilentConnection(RequestTimeoutError("late")))
            lab.online("G", "confused").answers.append(RemotingCommand.response(body=b"{{{"))
            lab.online("G", "unwilling").answers.append(RemotingCommand.response(1, "no"))
            reply = await lab.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="G")
            table = GetConsumerStatusBody.from_json(reply.body_bytes).consumer_table
            assert {client: list(offsets.values()) for client, offsets in table.items()} == {"one": [1], "two": [2]}

    asyncio.run(run())


def test_status_of_one_client_asks_nobody_else(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            one, two = lab.online("G", "one"), lab.online("G", "two")
            one.answers.append(status_of(1))
            ext = {"topic": "T", "group": "G", "clientAddr": "one"}
            reply = await lab.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, **ext)
            assert list(parse_java_json(reply.body_bytes)["consumerTable"]) == ["one"]
            assert [asked.code for asked in one.asked] == [RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT]
            assert two.asked == []

    asyncio.run(run())


def test_status_of_an_offline_group_is_an_error(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            reply = await lab.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="G")
            assert reply.code == ResponseCode.SYSTEM_ERROR
            lab.online("G", version=27)
            reply = await lab.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="G")
            assert "does not support" in (reply.remark or "")

    asyncio.run(run())


def test_mute_consumers_do_not_keep_administration_waiting() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        table = HandlerTable()
        table.register(RequestCode.GET_CONSUMER_RUNNING_INFO, lambda connection, request: None)
        mute = RemotingClient(table=table)
        consumer = {
            "groupName": "G",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [],
        }
        heartbeat = {"clientID": "client-1", "producerDataSet": [], "consumerDataSet": [consumer]}
        reply = await lab.ask(RequestCode.HEART_BEAT, None, json.dumps(heartbeat).encode(), client=mute)
        assert reply.code == 0, reply.remark
        lanes = lab.broker.handlers.table.lanes
        asking = [
            asyncio.ensure_future(lab.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING_INFO)) for _ in range(40)
        ]
        await until(lambda: lanes["relay"].running == 40)
        assert (await lab.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}, timeout=8.0)).code == 0
        assert lanes["relay"].running == 40, "and nobody had to give up for that"
        await mute.close()
        assert {reply.code for reply in await asyncio.gather(*asking)} == {ResponseCode.SYSTEM_ERROR}

    run_broker(scenario, flushDiskType="ASYNC_FLUSH")


def test_questions_for_clients_and_searches_by_time_have_lanes_apart_from_administration() -> None:
    async def scenario(lab: BrokerLab) -> None:
        entries = lab.broker.handlers.table.entries
        for code, lane in ((307, "relay"), (309, "relay"), (223, "relay"), (29, "client"), (32, "client")):
            assert entries[code][1].name == lane

    run_broker(scenario)
