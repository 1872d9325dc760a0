"""What a slave answers: reads are served, what would write is refused with codes that clients know."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flaremq.message.batch import encode_batch_item
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfigSerializeWrapper
from flaremq.protocol.codes import ROLE_FIELD, RequestCode, ResponseCode
from tests.support.broker_lab import bodies, send_header, until
from tests.support.group_lab import GroupLab, Member, caught_up, run


async def pair(lab: GroupLab, **slave_settings: Any) -> tuple[Member, Member]:
    """A master with three messages in T, and a slave that has everything."""
    master = await lab.master()
    for number in range(3):
        await master.sent("T", b"%d" % number)
    master.broker.state.groups.update(SubscriptionGroupConfig(group_name="readers"))
    slave = await lab.slave(**slave_settings)
    await until(lambda: "readers" in slave.broker.state.groups, "the tables are copied")
    await caught_up(slave, master)
    return master, slave


TOPIC = {"topic": "N", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
TOPIC |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}
HALF_END = {"producerGroup": "p", "tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": 8}
REFUSALS: list[tuple[RequestCode, dict[str, Any], bytes, ResponseCode]] = [
    (RequestCode.SEND_MESSAGE, send_header("T").encode(), b"x", ResponseCode.SERVICE_NOT_AVAILABLE),
    (RequestCode.SEND_MESSAGE_V2, send_header("T").encode_letters(), b"x", ResponseCode.SERVICE_NOT_AVAILABLE),
    (
        RequestCode.SEND_BATCH_MESSAGE,
        send_header("T").encode_letters(),
        encode_batch_item(0, b"x", b""),
        ResponseCode.SERVICE_NOT_AVAILABLE,
    ),
    (
        RequestCode.CONSUMER_SEND_MSG_BACK,
        {"offset": 0, "group": "readers", "delayLevel": 1},
        b"",
        ResponseCode.SERVICE_NOT_AVAILABLE,
    ),
    (RequestCode.END_TRANSACTION, HALF_END, b"", ResponseCode.SLAVE_NOT_AVAILABLE),
    (RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC, b"", ResponseCode.SYSTEM_ERROR),
    (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}, b"", ResponseCode.SYSTEM_ERROR),
    (
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        {},
        SubscriptionGroupConfig(group_name="g").to_json(),
        ResponseCode.SYSTEM_ERROR,
    ),
    (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "readers"}, b"", ResponseCode.SYSTEM_ERROR),
    (
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        {"topic": "T", "group": "readers", "timestamp": 0, "isForce": True},
        b"",
        ResponseCode.SYSTEM_ERROR,
    ),
]


def test_what_would_write_is_refused_with_codes_that_clients_know(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        _, slave = await pair(lab)
        end, topics = slave.log_end, slave.broker.state.topics.all()
        for code, ext, body, expected in REFUSALS:
            reply = await slave.ask(code, ext, body)
            assert (code, reply.code) == (code, expected), reply.remark
            assert "slave" in str(reply.remark) and reply.field(ROLE_FIELD) == "SLAVE"
        assert slave.log_end == end and slave.broker.state.topics.all() == topics

    run(tmp_path, scenario)


def test_reads_and_questions_are_answered_from_what_is_copied(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await pair(lab)
        assert bodies(await slave.pull("T")) == [b"0", b"1", b"2"]
        queue = {"topic": "T", "queueId": 0}
        for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET):
            assert (await slave.ask(code, queue)).ext == (await master.ask(code, queue)).ext
        for code in (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
            assert (await slave.ask(code)).body_bytes == (await master.ask(code)).body_bytes
        config = (await slave.ask(RequestCode.GET_BROKER_CONFIG)).body_bytes.decode().splitlines()
        assert {"brokerRole=SLAVE", "brokerId=1", f"haListenPort={slave.broker.ha.server.port}"} <= set(config)

    run(tmp_path, scenario)


def test_group_that_only_pulls_from_the_slave_is_served_and_not_kept(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        _, slave = await pair(lab)
        version = slave.broker.state.groups.data_version
        assert len(bodies(await slave.pull("T", group="strangers"))) == 3
        assert "strangers" not in slave.broker.state.groups and slave.broker.state.groups.data_version == version

    run(tmp_path, scenario)


def test_commit_flag_of_a_pull_is_ignored_and_a_commit_is_kept(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        _, slave = await pair(lab)
        await slave.pull("T", 1, sysFlag=5, commitOffset=1)
        assert slave.broker.state.offsets.find("readers", "T", 0) == -1
        commit = {"consumerGroup": "readers", "topic": "T", "queueId": 0, "commitOffset": 2}
        assert (await slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        assert slave.broker.state.offsets.find("readers", "T", 0) == 2

    run(tmp_path, scenario)


def test_slave_that_is_behind_holds_a_pull_ahead_of_it(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await pair(lab)
        ahead = asyncio.create_task(slave.pull("T", 5, sysFlag=6, suspendTimeoutMillis=20_000))
        await until(lambda: slave.broker.store_loop.dispatching.awaited.get("T", 0) > 0, "the pull is held")
        for number in range(3, 6):
            await master.sent("T", b"%d" % number)
        reply = await ahead
        assert (bodies(reply), reply.field("nextBeginOffset")) == ([b"5"], "6")

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("check", "code", "offset"),
    [("false", ResponseCode.PULL_NOT_FOUND, "9"), ("true", ResponseCode.PULL_OFFSET_MOVED, "3")],
)
def test_offset_is_corrected_only_if_offset_check_in_slave_says_so(
    check: str, code: ResponseCode, offset: str, tmp_path: Path
) -> None:
    async def scenario(lab: GroupLab) -> None:
        _, slave = await pair(lab, offsetCheckInSlave=check)
        reply = await slave.pull("T", 9)
        assert (reply.code, reply.field("nextBeginOffset")) == (code, offset)

    run(tmp_path, scenario)


@pytest.mark.parametrize("member", ["master", "slave"])
def test_slow_reader_is_sent_to_a_slave_if_slaves_may_be_read(member: str, tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await pair(lab, slaveReadEnable="true", accessMessageInMemoryMaxRatio=0)
        asked = slave if member == "slave" else master
        if member == "master":
            assert (await master.pull("T")).field("suggestWhichBrokerId") == "0"
            await master.stop()
            master.settings |= {"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0"}
            await master.start()
        for serialize_type in (0, 1):
            reply = await asked.pull("T", serialize_type=serialize_type)
            assert reply.field("suggestWhichBrokerId") == "1"
            empty = await asked.pull("T", 3, serialize_type=serialize_type)
            assert empty.field("suggestWhichBrokerId") == "0"

    run(tmp_path, scenario)


def test_stranger_does_not_turn_a_slave_to_another_master(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await pair(lab)
        lie = {"masterAddress": "127.0.0.1:1", "masterHaAddress": "127.0.0.1:2"}
        assert (await slave.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, lie)).code == ResponseCode.SUCCESS
        assert slave.broker.ha.client.facts.master_address == master.broker.ha.advertised_address
        asked = await master.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
        assert asked.field("masterHaAddress") == master.broker.ha.advertised_address
        assert asked.field("masterAddress") == master.broker.address

    run(tmp_path, scenario)


def test_master_flush_offset_is_kept_by_slaves_and_shown(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await pair(lab)
        for member, shown in ((slave, 77), (master, 0)):
            reply = await member.ask(RequestCode.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": 77})
            assert reply.code == ResponseCode.SUCCESS
            info = member.broker.ha.runtime_info()
            assert info.ha_client_runtime_info.master_flush_offset == shown

    run(tmp_path, scenario)


def test_table_that_fits_into_one_page_has_no_total(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        paging = {"topicSeq": 0, "maxTopicNum": 2000, "dataVersion": ""}
        reply = await master.ask(RequestCode.GET_ALL_TOPIC_CONFIG, paging)
        assert "totalTopicNum" not in (reply.ext or {})
        assert len(TopicConfigSerializeWrapper.from_json(reply.body_bytes).topic_config_table) == len(
            master.broker.state.topics
        )

    run(tmp_path, scenario)


def test_master_that_holds_writes_refuses_messages_and_still_serves(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master()
        await master.sent("T", b"x")
        master.broker.role.hold_writes("the controller is not heard")
        for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2):
            reply = await master.send("T", b"y", code=code)
            assert (reply.code, reply.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, "the controller is not heard")
            assert reply.field(ROLE_FIELD) == "MASTER"
        assert bodies(await master.pull("T")) == [b"x"]
        assert (await master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == ResponseCode.SUCCESS
        master.broker.role.resume_writes()
        assert (await master.send("T", b"y")).code == ResponseCode.SUCCESS

    run(tmp_path, scenario)
