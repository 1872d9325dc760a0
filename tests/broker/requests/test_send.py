"""Sends: what is stored, what is answered, which error wins, whichever way a message takes through the broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flaremq.broker.ingest import ingest as ingest_module
from flaremq.broker.ingest import plain as plain_module
from flaremq.errors import StoreIOError
from flaremq.message.batch import encode_batch
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.storage.log.commit_log import CommitLog
from tests.support.broker_lab import BORN, UNIQUE, BrokerLab, run, send_header, until
from tests.support.driven_store import batch_body

SEND, SEND_V2, SEND_BATCH = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
TRANSACTION_PREPARED = 0x4
SYSTEM_ERROR, BUSY, ILLEGAL, UNAVAILABLE, FORBIDDEN, NO_TOPIC, NO_GROUP, BAD = 1, 2, 13, 14, 16, 17, 26, 29


def without_place(message: MessageExt) -> tuple[Any, ...]:
    """Everything of a record but where and when it was stored."""
    return (
        message.topic,
        message.queue_id,
        bytes(message.stored_body),
        bytes(message.raw_properties),
        message.flag,
        message.sys_flag,
        message.born_timestamp,
        message.born_host_bytes[:4],
        message.store_host_bytes,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )


# What is stored and answered


@pytest.mark.parametrize("serialize_type", [0, 1], ids=["json", "compact"])
@pytest.mark.parametrize("code", [SEND, SEND_V2])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_send_is_stored_as_sent_and_answered_with_its_place(code: int, serialize_type: int, flush: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=4)
        properties = f"TAGS\x01A\x02KEYS\x01k1 k2\x02{UNIQUE}"
        ids = []
        for number in range(3):  # the first goes the long way, the others the short one
            reply = await lab.send(
                "orders",
                b"body",
                queue_id=2,
                flag=7,
                sys_flag=1,
                properties=properties,
                code=code,
                serialize_type=serialize_type,
            )
            assert (reply.code, reply.remark, reply.serialize_type) == (0, None, serialize_type)
            assert (reply.field("queueId"), reply.field("queueOffset")) == ("2", str(number))
            assert (reply.field("MSG_REGION"), reply.field("TRACE_ON")) == ("DefaultRegion", "true")
            lab.broker.store_loop.dispatching.catch_up()
            message = lab.record(reply)
            assert message.message_id == reply.field("msgId")
            ids.append(without_place(message))
            assert (message.topic, message.queue_id, message.queue_offset) == ("orders", 2, number)
            assert (bytes(message.stored_body), message.flag, message.sys_flag) == (b"body", 7, 1)
            assert message.born_timestamp == BORN
            assert message.store_timestamp == lab.ephemeral.clock.now_ms()
            assert message.store_host == lab.address
            connection = lab.client.connected(lab.address)
            assert connection is not None and connection._transport is not None
            host, port = connection._transport.get_extra_info("sockname")
            assert message.born_host == f"{host}:{port}"
            assert message.properties | {"TAGS": "A", "KEYS": "k1 k2"} == message.properties
            assert message.properties["CLUSTER"] == "DefaultCluster"
        assert ids[0] == ids[1] == ids[2]

    run(scenario, flushDiskType=flush)


def test_all_ways_through_the_broker_store_the_same_bytes_and_answer_alike() -> None:
    """The long way (a first send), the short way, and what arrives as one of many in a read once kernels are there."""

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=4)
        broker = lab.broker
        for serialize_type in (0, 1):
            requests = []
            for number in range(40):
                header = send_header("orders", queue_id=number % 4, properties=f"TAGS\x01T{number}\x02{UNIQUE}")
                request = RemotingCommand.request(SEND_V2, header.encode_letters(), b"x" * number)
                request.serialize_type = serialize_type
                requests.append(request)
            outcomes = []
            for way in ("long", "short", "one of many"):
                replies: dict[int, RemotingCommand] = {}
                if way == "one of many":
                    replies = await exchange(lab, b"".join(map(encode_frame, requests)), len(requests))
                else:
                    for request in requests:
                        if way == "long":
                            lab.topic("other", queues=1 + len(broker.state.topics.all()) % 7)  # forgets all it knew
                        request.flag = 0
                        reply = await lab.client.request(lab.address, request)
                        replies[request.opaque] = reply
                broker.store_loop.dispatching.catch_up()
                outcome = []
                for request in requests:
                    reply = replies[request.opaque]
                    assert reply.code == 0, reply.remark
                    ext = {name: value for name, value in (reply.ext or {}).items() if name != "transactionId"}
                    del ext["msgId"], ext["queueOffset"]
                    outcome.append((without_place(lab.record(reply)), ext, reply.serialize_type))
                outcomes.append(outcome)
            assert outcomes[0] == outcomes[1] == outcomes[2]

    run(scenario)


async def exchange(lab: BrokerLab, data: bytes, count: int) -> dict[int, RemotingCommand]:
    """The replies to frames written in one go, by opaque."""
    reader, writer = await asyncio.open_connection("127.0.0.1", lab.broker.port)
    writer.write(data)
    decoder = FrameDecoder()
    replies: dict[int, RemotingCommand] = {}
    while len(replies) < count:
        received = await reader.read(1 << 16)
        assert received, f"closed after {len(replies)} of {count} replies"
        for command in decoder.receive(received):
            replies[command.opaque] = command
    writer.close()
    await writer.wait_closed()
    return replies


@pytest.mark.parametrize("properties", [None, "", "TAGS\x01A\x02", "XUNIQ_KEY\x01v\x02", "TAGS\x01A"])
def test_message_without_unique_key_gets_one(properties: str | None) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        keys = [(await lab.sent("orders", properties=properties)).properties["UNIQ_KEY"] for _ in range(3)]
        assert len(set(keys)) == 3 and all(len(key) == 32 for key in keys)

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_unique_key_of_the_client_is_kept_and_answered() -> None:
    async def scenario(lab: BrokerLab) -> None:
        reply = await lab.send("orders")
        lab.broker.store_loop.dispatching.catch_up()
        assert reply.field("transactionId") == lab.record(reply).properties["UNIQ_KEY"] == UNIQUE[9:-1]

    run(scenario)


def test_what_the_broker_says_of_a_message_replaces_what_the_client_says() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for _ in range(2):
            message = await lab.sent(
                "orders",
                properties=f"CLUSTER\x01lie\x02{UNIQUE}MSG_REGION\x01lie\x02TRACE_ON\x01lie\x02POP_CK\x01lie\x02",
            )
            assert "POP_CK" not in message.properties
            assert bytes(message.raw_properties).count(b"lie") == 0
            assert message.properties["TRACE_ON"] == "true"

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_compressed_body_is_stored_as_it_came() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for sys_flag in (0x1, 0x101, 0x201, 0x301):
            message = await lab.sent("orders", b"not really compressed", sys_flag=sys_flag)
            assert (message.sys_flag, bytes(message.stored_body)) == (sys_flag, b"not really compressed")

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_oneway_send_is_stored_and_not_answered() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for number in range(3):
            header = send_header("orders", properties=UNIQUE)
            request = RemotingCommand.request(SEND_V2, header.encode_letters(), b"%d" % number, oneway=True)
            await lab.client.oneway(lab.address, request)
        assert (await lab.send("orders")).field("queueOffset") == "3"
        connection = lab.client.connected(lab.address)
        assert connection is not None and connection.calls == 0

    run(scenario)


# Queues and topics


def test_negative_queue_id_lets_the_broker_choose_among_the_write_queues() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=8, write_queue_nums=3)
        chosen = {int((await lab.send("orders", queue_id=-1)).field("queueId")) for _ in range(60)}
        assert chosen == {0, 1, 2}

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_queue_id_may_be_below_the_larger_of_read_and_write_queues() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=8, write_queue_nums=3)
        for _ in range(2):
            assert [(await lab.send("orders", queue_id=number)).code for number in (2, 7, 8)] == [0, 0, BAD]
        lab.topic("orders", queues=2)
        assert (await lab.send("orders", queue_id=7)).code == BAD, (
            "what was learnt of a topic is forgotten when it changes"
        )

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_unknown_topic_is_created_after_its_default_topic_and_registered() -> None:
    async def scenario(lab: BrokerLab) -> None:
        reply = await lab.send("fresh", default_topic_queue_nums=3)
        assert reply.code == 0
        config = lab.broker.state.topics.find("fresh")
        assert config is not None
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (3, 3, 6)
        route = await lab.client.request(
            lab.ephemeral.name_server, RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "fresh"})
        )
        assert route.code == 0, "a client that got its reply finds the route"
        wide = await lab.send("wide", default_topic_queue_nums=1000)
        assert wide.code == 0
        config = lab.broker.state.topics.find("wide")
        assert config is not None and config.write_queue_nums == lab.broker.options.default_topic_queue_nums

    run(scenario)


def test_topic_is_not_created_where_nothing_allows_it() -> None:
    async def scenario(lab: BrokerLab) -> None:
        reply = await lab.send("fresh")
        assert reply.code == NO_TOPIC and "fresh" in str(reply.remark)
        lab.topic("model", perm=6)  # without the right to inherit
        assert (await lab.send("fresh", default_topic="model")).code == NO_TOPIC
        assert (await lab.send("fresh", default_topic="absent")).code == NO_TOPIC
        lab.topic("model", perm=7)
        assert (await lab.send("fresh", default_topic="model")).code == 0

    run(scenario, autoCreateTopicEnable=False)


def test_deleted_topic_is_gone_for_senders_at_once() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        assert (await lab.send("orders")).code == 0
        assert (await lab.send("orders")).code == 0
        reply = await lab.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
        assert reply.code == 0, reply.remark
        assert (await lab.send("orders", default_topic="none")).code == NO_TOPIC

    run(scenario)


# Which error wins


ORDER_OF_CHECKS: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("missing field", {"topic": None}, {}, SYSTEM_ERROR),
    ("number that is none", {"queue_id": "x"}, {}, SYSTEM_ERROR),
    (
        "not accepting yet, before a bad name",
        {"topic": "a b"},
        {"startAcceptSendRequestTimeStamp": 2**62},
        SYSTEM_ERROR,
    ),
    ("blank name", {"topic": " "}, {}, BAD),
    ("path in a name", {"topic": "../../etc"}, {}, BAD),
    ("name too long", {"topic": "x" * 128}, {}, BAD),
    ("retry name too long", {"topic": "%RETRY%" + "x" * 250}, {}, BAD),
    ("schedule topic", {"topic": "SCHEDULE_TOPIC_XXXX"}, {}, FORBIDDEN),
    ("half topic", {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, {}, FORBIDDEN),
    ("op topic", {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC"}, {}, FORBIDDEN),
    ("discard topic", {"topic": "TRANS_CHECK_MAX_TIME_TOPIC"}, {}, FORBIDDEN),
    ("self test", {"topic": "SELF_TEST_TOPIC"}, {}, FORBIDDEN),
    ("offset moved", {"topic": "OFFSET_MOVED_EVENT"}, {}, FORBIDDEN),
    ("no topic, before a bad queue", {"default_topic": "none", "queue_id": 99}, {}, NO_TOPIC),
    ("queue, before properties", {"topic": "TBW102", "queue_id": 99, "properties": "x" * 40_000}, {}, BAD),
    ("no group", {"topic": "%RETRY%absent"}, {"autoCreateSubscriptionGroup": False}, NO_GROUP),
    ("properties too long", {"properties": "K\x01" + "v" * 32_767}, {}, ILLEGAL),
    ("NUL in properties", {"properties": "K\x01v\x00\x02"}, {}, ILLEGAL),
    ("inner batch property", {"properties": "INNER_NUM\x015\x02"}, {}, ILLEGAL),
    ("inner batch bit", {"sys_flag": 0x80}, {}, ILLEGAL),
    ("timer that is no number", {"properties": "TIMER_DELAY_MS\x01soon\x02"}, {}, ILLEGAL),
    ("timer too far", {"properties": "TIMER_DELAY_SEC\x01999999\x02"}, {}, ILLEGAL),
    (
        "transaction where forbidden",
        {"properties": "TRAN_MSG\x01true\x02"},
        {"rejectTransactionMessage": True},
        FORBIDDEN,
    ),
    ("flag too large", {"flag": 2**31}, {}, SYSTEM_ERROR),
    ("born in no year", {"born_timestamp": 2**63}, {}, SYSTEM_ERROR),
]


@pytest.mark.parametrize(
    ("fields", "options", "code"), [case[1:] for case in ORDER_OF_CHECKS], ids=[case[0] for case in ORDER_OF_CHECKS]
)
def test_refused_send_has_the_code_of_the_first_check_that_fails(
    fields: dict[str, Any], options: dict[str, Any], code: int
) -> None:
    async def scenario(lab: BrokerLab) -> None:
        before = lab.broker.store_loop.driver.appended
        for request_code in (SEND, SEND_V2):
            header = send_header("fresh")
            for name, value in fields.items():
                setattr(header, name, value)
            ext = header.encode() if request_code == SEND else header.encode_letters()
            for serialize_type in (0, 1):
                reply = await lab.ask(request_code, ext, b"body", serialize_type=serialize_type)
                assert reply.code == code, reply.remark
                assert reply.remark and "\n" not in reply.remark and "Traceback" not in reply.remark
        assert lab.broker.store_loop.driver.appended == before, "nothing was stored"

    run(scenario, **options)


def test_body_above_the_limit_is_illegal_and_one_at_the_limit_is_not() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        for _ in range(2):
            assert (await lab.send("orders", bytes(20_000))).code == 0
            assert (await lab.send("orders", bytes(20_001))).code == ILLEGAL

    run(scenario, maxMessageSize=20_000, flushDiskType="ASYNC_FLUSH")


def test_order_topic_of_a_broker_that_may_not_be_written_is_forbidden() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        lab.topic("ordered", order=True)
        for _ in range(2):
            assert (await lab.send("ordered")).code == FORBIDDEN
            assert (await lab.send("orders")).code == 0
            assert (await lab.send("fresh")).code == 0

    run(scenario, brokerPermission=4, flushDiskType="ASYNC_FLUSH")


def test_unknown_default_topic_field_is_named_in_the_error() -> None:
    async def scenario(lab: BrokerLab) -> None:
        ext = send_header("orders").encode_letters()
        del ext["c"]
        reply = await lab.ask(SEND_V2, ext, b"body")
        assert reply.code == SYSTEM_ERROR
        assert "defaultTopic" in str(reply.remark) or "<c>" in str(reply.remark)
        nothing: tuple[dict[str, str] | None, ...] = ({}, None)
        for empty in nothing:
            assert (await lab.ask(SEND_V2, empty, b"body")).code == SYSTEM_ERROR
            assert (await lab.ask(SEND, empty, b"body")).code == SYSTEM_ERROR
            assert (await lab.ask(SEND_BATCH, empty, b"body")).code == SYSTEM_ERROR

    run(scenario)


# Options that change while the broker runs


def test_changed_options_reach_the_next_send() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("ordered", order=True)
        assert (await lab.sent("ordered")).properties["TRACE_ON"] == "true"
        assert (await lab.sent("ordered")).properties["TRACE_ON"] == "true"
        reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"traceOn=false\n")
        assert reply.code == 0, reply.remark
        for _ in range(2):
            reply = await lab.send("ordered")
            assert reply.field("TRACE_ON") == "false"
            assert lab.record(reply).properties["TRACE_ON"] == "false"
        assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=4\n")).code == 0
        assert (await lab.send("ordered")).code == FORBIDDEN
        assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6\n")).code == 0
        assert (await lab.send("ordered")).code == 0
        later = lab.ephemeral.clock.now_ms() + 1000
        body = f"startAcceptSendRequestTimeStamp={later}\n".encode()
        assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, body)).code == 0
        assert (await lab.send("ordered")).code == SYSTEM_ERROR
        await lab.ephemeral.advanced(1000)
        assert (await lab.send("ordered")).code == 0

    run(scenario, flushDiskType="ASYNC_FLUSH")


# Retries and dead letters


async def retry(lab: BrokerLab, times: int, **fields: Any) -> MessageExt:
    reply = await lab.send("%RETRY%group", reconsume_times=times, **fields)
    assert reply.code == 0, reply.remark
    return lab.record(reply)


def test_message_sent_back_too_often_becomes_a_dead_letter() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.broker.state.groups.update(SubscriptionGroupConfig(group_name="group", retry_max_times=3))
        assert (await retry(lab, 3)).topic == "%RETRY%group"
        dead = await retry(lab, 4, properties=f"DELAY\x013\x02{UNIQUE}")
        assert (dead.topic, dead.queue_id) == ("%DLQ%group", 0)
        assert "DELAY" not in dead.properties
        assert lab.broker.state.statistics.find("DLQ_PUT_NUMS", "%RETRY%group@group") is not None
        config = lab.broker.state.topics.find("%DLQ%group")
        assert config is not None and config.read_queue_nums == 1

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_limit_of_the_client_counts_from_release_3_4_9_on() -> None:
    async def scenario(lab: BrokerLab) -> None:
        assert (await retry(lab, 2, max_reconsume_times=1, version=121)).topic == "%DLQ%group"
        assert (await retry(lab, 2, max_reconsume_times=1, version=120)).topic == "%RETRY%group"
        assert (await retry(lab, 17, max_reconsume_times=20)).topic == "%RETRY%group"
        assert (await retry(lab, 17)).topic == "%DLQ%group", "16 is the limit of a group that says nothing"

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_message_a_consumer_in_order_gives_up_becomes_a_dead_letter_whatever_its_count() -> None:
    """Clients of 4.9 send it back with the very limit as its count, those of 5.x with one more."""

    async def scenario(lab: BrokerLab) -> None:
        queue = MessageQueue(topic="TBW102", broker_name="broker-a", queue_id=0)
        locks = lab.broker.state.locks
        assert locks.lock("group", "client", [queue]) == [queue]
        assert (await retry(lab, 2, max_reconsume_times=2, version=401)).topic == "%DLQ%group"
        locks.unlock("group", "client", [queue])
        assert (await retry(lab, 2, max_reconsume_times=2, version=401)).topic == "%RETRY%group"
        locks.lock("group", "client", [queue])
        await lab.ephemeral.advanced(61_000)  # nobody asked for the lock any more
        assert (await retry(lab, 2, max_reconsume_times=2, version=401)).topic == "%RETRY%group"

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_retry_topic_is_created_with_one_queue() -> None:
    async def scenario(lab: BrokerLab) -> None:
        reply = await lab.send("%RETRY%group", default_topic="none")
        assert reply.code == 0
        config = lab.broker.state.topics.find("%RETRY%group")
        assert config is not None and (config.read_queue_nums, config.perm) == (1, 6)

    run(scenario)


# Detours


def test_delayed_timed_and_half_messages_wait_elsewhere_and_answer_for_the_queue_asked_for() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=4)
        for properties, sys_flag, topic in (
            ("DELAY\x013\x02", 0, "SCHEDULE_TOPIC_XXXX"),
            ("TIMER_DELAY_MS\x015000\x02", 0, "rmq_sys_wheel_timer"),
            ("TRAN_MSG\x01true\x02PGROUP\x01writers\x02", TRANSACTION_PREPARED, "RMQ_SYS_TRANS_HALF_TOPIC"),
        ):
            for _ in range(2):
                reply = await lab.send("orders", queue_id=3, properties=properties + UNIQUE, sys_flag=sys_flag)
                assert (reply.code, reply.field("queueId")) == (0, "3"), reply.remark
                record = lab.record(reply)
                assert record.topic == topic and record.properties["REAL_TOPIC"] == "orders"
                assert record.properties["REAL_QID"] == "3"
                assert reply.field("queueOffset") == str(record.queue_offset)
                assert ((reply.ext or {}).get("recallHandle") is not None) == (topic == "rmq_sys_wheel_timer")
        assert lab.broker.store.max_offset("orders", 3) == 0

    run(scenario, flushDiskType="ASYNC_FLUSH")


def test_no_transaction_begins_while_too_many_are_not_done_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flaremq.broker.transactions.half_table.HALF_MESSAGES_MAX", 2)

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=4)
        state = lab.broker.state

        async def begin() -> int:
            properties = "TRAN_MSG\x01true\x02PGROUP\x01writers\x02" + UNIQUE
            reply = await lab.send("orders", queue_id=3, properties=properties, sys_flag=TRANSACTION_PREPARED)
            state.store_loop.dispatching.catch_up()
            return reply.code

        assert [await begin(), await begin()] == [0, 0]
        assert await begin() == BUSY
        assert (await lab.send("orders", queue_id=3, properties=UNIQUE)).code == 0  # others are not concerned
        state.transactions.half.finish((1,))  # takes memory until the one before is done with, too
        assert await begin() == BUSY
        state.transactions.half.finish((0,))
        assert await begin() == 0

    run(scenario, flushDiskType="ASYNC_FLUSH")


# Durability


def test_send_is_answered_when_it_is_durable_unless_it_does_not_want_to_wait() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        await lab.send("orders")
        with lab.slow_disk() as released:
            patient = asyncio.ensure_future(lab.send("orders", b"patient"))
            long_way = asyncio.ensure_future(lab.send("orders", b"long", properties=None))
            hasty = await lab.send("orders", b"hasty", properties=f"WAIT\x01false\x02{UNIQUE}")
            assert hasty.code == 0
            assert not patient.done() and not long_way.done()
            assert lab.broker.store.max_offset("orders", 0) <= 1, "nothing is shown before it is durable"
            released.set()
            assert ((await patient).code, (await long_way).code) == (0, 0)

    run(scenario)


@pytest.mark.slow
def test_disk_that_takes_too_long_is_said_so_with_the_place_of_the_message() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        await lab.send("orders")
        with lab.slow_disk():
            waiting = [
                asyncio.ensure_future(lab.send("orders")),
                asyncio.ensure_future(lab.send("orders", properties=None)),
            ]
            await until(lambda: lab.broker.store_loop.durability.unacknowledged == 2)
            lab.broker.store_loop.durability.timeout_seconds = -1.0  # time is over
            await lab.ephemeral.advanced(1000)
            for number, reply in enumerate(await asyncio.gather(*waiting)):
                assert (reply.code, reply.field("queueOffset")) == (10, str(number + 1))
                assert reply.remark == "FLUSH_DISK_TIMEOUT"
            lab.broker.store_loop.durability.timeout_seconds = 5.0
        assert (await lab.send("orders")).code == 0

    run(scenario)


def test_failed_sync_acknowledges_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: CommitLog) -> int:
        raise StoreIOError("sync", "log", OSError(5, "Input/output error"))

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        await lab.send("orders", b"safe")
        lab.broker.store_loop.dispatching.catch_up()
        monkeypatch.setattr(CommitLog, "sync", fail)
        replies = await asyncio.gather(*(lab.send("orders", b"unsure") for _ in range(5)), lab.send("fresh", b"unsure"))
        assert {reply.code for reply in replies} == {UNAVAILABLE}
        assert (await lab.send("orders", b"late")).code == UNAVAILABLE
        assert (
            await lab.ask(SEND_BATCH, send_header("orders").encode_letters(), batch_body((0, b"b", b"")))
        ).code == UNAVAILABLE
        pulled = await lab.pull("orders")
        assert pulled.code == 0 and b"unsure" not in pulled.body_bytes

    run(scenario)


def test_too_many_that_wait_for_the_disk_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_module, "UNACKNOWLEDGED_MAX", 2)
    monkeypatch.setattr(ingest_module, "UNACKNOWLEDGED_MAX", 2)

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        await lab.send("orders")
        with lab.slow_disk() as released:
            waiting = [asyncio.ensure_future(lab.send("orders")) for _ in range(2)]
            await until(lambda: lab.broker.store_loop.durability.unacknowledged == 2)
            busy = await lab.send("orders")
            assert busy.code == BUSY and str(busy.remark).startswith("[PCBUSY_CLEAN_QUEUE]")
            released.set()
            assert [reply.code for reply in await asyncio.gather(*waiting)] == [0, 0]
        assert (await lab.send("orders")).code == 0

    run(scenario)


# Batches


async def send_batch(lab: BrokerLab, body: bytes, **fields: Any) -> RemotingCommand:
    ext = send_header(fields.pop("topic", "orders"), batch=True, **fields).encode_letters()
    return await lab.ask(SEND_BATCH, ext, body)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_batch_is_stored_as_records_of_consecutive_offsets(flush: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        sent = [Message("orders", b"body %d" % number, tags=f"T{number}", flag=number) for number in range(5)]
        for first in (0, 5):
            reply = await send_batch(lab, encode_batch(sent), queue_id=1)
            assert reply.code == 0, reply.remark
            assert (reply.field("queueOffset"), reply.field("queueId")) == (str(first), "1")
            ids = reply.field("msgId").split(",")
            lab.broker.store_loop.dispatching.catch_up()
            found = [lab.broker.store.read(int(text[16:], 16)) for text in ids]
            assert [(m.body, m.tags, m.flag, m.queue_offset) for m in found if m is not None] == [
                (m.body, m.tags, m.flag, first + number) for number, m in enumerate(sent)
            ]

    run(scenario, flushDiskType=flush)


@pytest.mark.parametrize("serialize_type", [0, 1], ids=["json", "compact"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_batch_is_answered_alike_with_and_without_a_key_of_its_own(serialize_type: int, flush: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        body = batch_body((0, b"one", b""), (0, b"two", b""))
        answers = []
        for properties in ("", "UNIQ_KEY\x01of the batch\x02"):
            ext = send_header("orders", batch=True, properties=properties).encode_letters()
            reply = await lab.ask(SEND_BATCH, ext, body, serialize_type=serialize_type)
            assert (reply.code, reply.remark, reply.serialize_type) == (0, None, serialize_type)
            answers.append({name: str(value) for name, value in (reply.ext or {}).items()})
        assert answers[1].pop("transactionId") == "of the batch"
        assert [answer.pop("queueOffset") for answer in answers] == ["0", "2"]
        assert [answer.pop("msgId").count(",") for answer in answers] == [1, 1]
        assert answers[0] == answers[1]

    run(scenario, flushDiskType=flush)


def test_batch_by_a_plain_code_with_the_batch_field_set_is_a_batch() -> None:
    async def scenario(lab: BrokerLab) -> None:
        body = batch_body((0, b"one", b""), (0, b"two", b""))
        header = send_header("orders", batch=True)
        for code, ext in ((SEND_V2, header.encode_letters()), (SEND, header.encode())):
            reply = await lab.ask(code, ext, body)
            assert reply.code == 0 and reply.field("msgId").count(",") == 1

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "body", "code"),
    [
        ({"topic": "%RETRY%group"}, batch_body((0, b"b", b"")), ILLEGAL),
        ({"properties": "DELAY\x013\x02"}, batch_body((0, b"b", b"")), ILLEGAL),
        ({"sys_flag": TRANSACTION_PREPARED}, batch_body((0, b"b", b"")), ILLEGAL),
        ({}, b"", ILLEGAL),
        ({}, b"garbage", ILLEGAL),
        ({}, batch_body((0, b"b", b"K\x01v\x00\x02")), ILLEGAL),
        ({"queue_id": 99}, batch_body((0, b"b", b"")), BAD),
        ({"topic": "a b"}, batch_body((0, b"b", b"")), BAD),
        ({"default_topic": "none"}, batch_body((0, b"b", b"")), NO_TOPIC),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, batch_body((0, b"b", b"")), FORBIDDEN),
    ],
    ids=["retry", "delay", "transaction", "empty", "garbage", "NUL", "queue", "name", "no topic", "forbidden"],
)
def test_batch_that_is_refused_stores_nothing(fields: dict[str, Any], body: bytes, code: int) -> None:
    async def scenario(lab: BrokerLab) -> None:
        reply = await send_batch(lab, body, **fields)
        assert reply.code == code, reply.remark
        assert lab.broker.store_loop.driver.appended == 0

    run(scenario)


def test_reply_to_a_batch_of_tens_of_thousands_names_every_message() -> None:
    async def scenario(lab: BrokerLab) -> None:
        count = 20_000  # more than half a megabyte of ids
        empty = (22).to_bytes(4, "big") + bytes(18)
        reply = await send_batch(lab, empty * count)
        assert reply.code == 0, reply.remark
        ids = reply.field("msgId").split(",")
        assert len(ids) == len(set(ids)) == count
        lab.broker.store_loop.dispatching.catch_up()
        for number in (0, 1, 777, count - 1):
            message = lab.broker.store.read(int(ids[number][16:], 16))
            assert message is not None and (message.queue_offset, message.message_id) == (number, ids[number])

    run(scenario, flushDiskType="ASYNC_FLUSH")


@pytest.mark.parametrize("code", [SEND, SEND_V2])
@pytest.mark.parametrize("error", [KeyError, ValueError, TypeError, AttributeError])
def test_error_behind_the_append_does_not_store_the_message_twice(code: int, error: type[Exception]) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=1)
        await lab.sent("orders", properties=UNIQUE, code=code)  # from now on the short way
        honest = lab.broker.store_loop.dispatching.note_awaited

        def fail(topic: str, end: int) -> None:
            lab.broker.store_loop.dispatching.note_awaited = honest  # type: ignore[method-assign]
            raise error("a bug")

        lab.broker.store_loop.dispatching.note_awaited = fail  # type: ignore[method-assign]
        reply = await lab.send("orders", properties=UNIQUE, code=code)
        assert reply.code == SYSTEM_ERROR
        assert (await lab.sent("orders", properties=UNIQUE, code=code)).queue_offset == 2

    run(scenario)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
def test_put_size_is_that_of_the_records_whichever_way_they_take(compiled: bool) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=1)
        begin = lab.broker.store.max_physical_offset
        await lab.sent("orders", properties=UNIQUE)  # the long way
        await lab.sent("orders", properties=UNIQUE)  # the short way
        await lab.ask(SEND_BATCH, send_header("orders", batch=True).encode_letters(), batch_body((0, b"b", b"")))
        if not compiled:
            lab.broker.handlers.table.fast_path = None
        else:
            ext = send_header("orders", properties=UNIQUE).encode_letters()
            await asyncio.gather(*(lab.ask(SEND_V2, ext, b"x" * 50) for _ in range(20)))
        assert lab.broker.state.statistics._puts["orders"].size == lab.broker.store.max_physical_offset - begin

    run(scenario)
