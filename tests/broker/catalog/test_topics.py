"""Topics of a broker: who may cause them, what is kept, who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.catalog.topic_attributes import changed_attributes, check_attributes
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.clock import ManualClock
from flaremq.errors import StoreIOError
from flaremq.protocol.bodies.topic import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
)
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem
from tests.support.crash_fs import CrashFS, Fault
from tests.support.metadata_lab import MetadataLab


@pytest.fixture
def lab(tmp_path: Path) -> MetadataLab:
    return MetadataLab(tmp_path)


def topic(name: str = "T", count: int = 4, perm: int = 6, **more: Any) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm, **more)


# What is there from the start


def test_new_broker_has_rocketmqs_topics(lab: MetadataLab) -> None:
    found = {name: (config.write_queue_nums, config.perm) for name, config in lab.topics.all().items()}
    assert found == {
        "SELF_TEST_TOPIC": (1, 6),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "TRANS_CHECK_MAX_TIME_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
        "rmq_sys_wheel_timer": (1, 6),
        "TBW102": (8, 7),
    }


def test_options_decide_about_optional_topics(tmp_path: Path) -> None:
    options = BrokerOptions(
        auto_create_topic_enable=False,
        trace_topic_enable=True,
        msg_trace_topic_name="traces",
        timer_wheel_enable=False,
        cluster_topic_enable=False,
    )
    topics = MetadataLab(tmp_path, options).topics.all()
    assert "TBW102" not in topics and "rmq_sys_wheel_timer" not in topics
    assert topics["traces"].write_queue_nums == 1
    assert topics["DefaultCluster"].perm == 6


def test_file_wins_over_what_would_be_built_in(lab: MetadataLab) -> None:
    lab.topics.update(topic("TBW102", 3, 7))
    lab.topics.save_now()
    again = lab.reopened().topics.find("TBW102")
    assert again is not None and again.write_queue_nums == 3


@pytest.mark.parametrize("name", ["TBW102", "broker-a", "DefaultCluster", "rmq_sys_anything", "RMQ_SYS_TRACE_TOPIC"])
def test_system_topics_are_recognised(lab: MetadataLab, name: str) -> None:
    assert lab.topics.is_system(name)


def test_ordinary_and_retry_topics_are_no_system_topics(lab: MetadataLab) -> None:
    assert not any(map(lab.topics.is_system, ["T", "%RETRY%G", "%DLQ%G"]))


# Creation by sends


def test_send_creates_a_topic_after_the_default_topic(lab: MetadataLab) -> None:
    assert lab.topics.create_on_send("T", "TBW102", 4) == topic("T", 4, 6)
    assert lab.topics.find("T") == topic("T", 4, 6)


def test_send_cannot_ask_for_more_queues_than_the_default_topic_has(lab: MetadataLab) -> None:
    created = lab.topics.create_on_send("T", "TBW102", 1_000_000)
    assert created is not None and created.write_queue_nums == 8


@pytest.mark.parametrize("wish", [0, -5])
def test_topic_has_at_least_one_queue(lab: MetadataLab, wish: int) -> None:
    created = lab.topics.create_on_send("T", "TBW102", wish)
    assert created is not None and created.write_queue_nums == 1


@pytest.mark.parametrize("default", ["absent", "SELF_TEST_TOPIC", ""])
def test_send_creates_nothing_after_a_topic_that_does_not_let_inherit(lab: MetadataLab, default: str) -> None:
    assert lab.topics.create_on_send("T", default, 4) is None
    assert lab.topics.find("T") is None


def test_creation_by_sends_can_be_switched_off_at_run_time(lab: MetadataLab) -> None:
    lab.options.change({"autoCreateTopicEnable": "false"})
    assert lab.topics.create_on_send("T", "TBW102", 4) is None
    assert lab.topics.create_on_send("T", "DefaultCluster", 4) is not None  # its own switch is still on


def test_existing_topic_is_returned_as_it_is(lab: MetadataLab) -> None:
    lab.topics.update(topic("T", 2, 4))
    assert lab.topics.create_on_send("T", "TBW102", 4) == topic("T", 2, 4)


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "../x", "a.b", "ü", "a" * 128, "%RETRY%" + "a" * 249])
def test_illegal_name_is_refused_and_not_created(lab: MetadataLab, name: str) -> None:
    with pytest.raises(RequestError) as caught:
        lab.topics.create_on_send(name, "TBW102", 4)
    assert caught.value.code == ResponseCode.INVALID_PARAMETER
    assert lab.topics.find(name) is None


def test_longest_legal_names_pass(lab: MetadataLab) -> None:
    assert lab.topics.create_on_send("a" * 127, "TBW102", 4) is not None
    assert lab.topics.create_on_send_back("%RETRY%" + "a" * 248, 1) is not None


def test_number_of_topics_is_limited(tmp_path: Path) -> None:
    lab = MetadataLab(tmp_path, BrokerOptions(topics_max=32))
    room = 32 - len(lab.topics)
    for number in range(room):
        assert lab.topics.create_on_send(f"T{number}", "TBW102", 4) is not None
    with pytest.raises(RequestError, match="topicsMax"):
        lab.topics.create_on_send("one-more", "TBW102", 4)
    with pytest.raises(RequestError, match="topicsMax"):
        lab.topics.create_on_send_back("%RETRY%G", 1)
    assert len(lab.topics) == 32
    lab.topics.update(topic("T0", 8))  # a change is no new topic


def test_retry_topic_is_created_once_and_keeps_its_order_unless_told(lab: MetadataLab) -> None:
    assert lab.topics.create_on_send_back("%RETRY%G", 2) == topic("%RETRY%G", 2, 6)
    assert lab.topics.create_on_send_back("%RETRY%G", 5).write_queue_nums == 2
    assert lab.topics.create_on_send_back("%RETRY%G", 2, order=True).order
    assert lab.topics.create_on_send_back("%RETRY%G", 2).order
    assert not lab.topics.create_on_send_back("%RETRY%G", 2, order=False).order


# Versions, files, listeners


def test_every_change_has_a_version_of_its_own(lab: MetadataLab) -> None:
    before = lab.topics.data_version
    lab.clock.advance(5)
    lab.topics.update(topic())
    assert lab.topics.data_version.counter == before.counter + 1
    assert lab.topics.data_version.timestamp == lab.clock.now_ms()
    lab.topics.update(topic())  # nothing new
    assert lab.topics.data_version.counter == before.counter + 1
    lab.topics.delete("T")
    assert lab.topics.data_version.counter == before.counter + 2
    assert not lab.topics.delete("T")


def test_settled_topic_survives_a_restart(lab: MetadataLab) -> None:
    lab.topics.update(topic(attributes={"message.type": "FIFO"}, order=True))
    assert not lab.topics.is_saved
    asyncio.run(lab.topics.save_changes())
    assert lab.topics.is_saved
    again = lab.reopened().topics
    assert again.all() == lab.topics.all()
    assert again.data_version == lab.topics.data_version


def test_deleted_topic_is_gone_after_a_restart(lab: MetadataLab) -> None:
    lab.topics.update(topic())
    asyncio.run(lab.topics.save_changes())
    lab.topics.delete("T")
    asyncio.run(lab.topics.save_changes())
    assert lab.reopened().topics.find("T") is None


def test_order_topics_are_those_the_name_server_names(lab: MetadataLab) -> None:
    lab.topics.update_all([topic("A"), topic("B", order=True), topic("%RETRY%G", 1, order=True)])
    lab.topics.set_order_topics(["A", "elsewhere"])
    assert [lab.topics.all()[name].order for name in ("A", "B", "%RETRY%G")] == [True, False, True]


def test_listeners_hear_of_each_change(lab: MetadataLab) -> None:
    heard: list[TopicConfig | None] = []
    deleted: list[str] = []
    lab.topics.on_change.append(heard.append)
    lab.topics.on_delete.append(deleted.append)
    lab.topics.update(topic())
    lab.topics.update_all([topic("A"), topic("B")])
    lab.topics.delete("T")
    lab.topics.set_order_topics(["A"])  # comes from a registration: announcing it would go round in circles
    assert heard == [topic(), None, None]
    assert deleted == ["T"]


def test_settle_waits_for_disk_and_announcement(lab: MetadataLab) -> None:
    async def scenario() -> None:
        released = asyncio.Event()

        async def announce(_: TopicConfig | None) -> None:
            await released.wait()

        lab.topics.on_change.append(announce)
        lab.topics.update(topic())
        settled = asyncio.ensure_future(lab.topics.save_changes())
        for _ in range(100):
            await asyncio.sleep(0)
        assert lab.on_disk("topics")["topicConfigTable"]["T"]["perm"] == 6
        assert not settled.done()
        released.set()
        await settled
        assert lab.topics.is_saved

    asyncio.run(scenario())


def test_failing_announcement_does_not_fail_the_change(lab: MetadataLab) -> None:
    async def announce(_: TopicConfig | None) -> None:
        raise RuntimeError("no name server today")

    lab.topics.on_change.append(announce)

    async def scenario() -> None:
        lab.topics.update(topic())
        await lab.topics.save_changes()

    asyncio.run(scenario())
    assert lab.reopened().topics.find("T") == topic()


def test_changes_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    writes: list[int] = []

    async def scenario() -> None:
        gate = asyncio.Event()

        async def slow(function: Callable[..., Any], *arguments: Any) -> Any:
            await gate.wait()
            writes.append(1)
            return function(*arguments)

        file = ConfigFile(LocalFileSystem(), str(tmp_path / "topics.json"))
        table = TopicTable(BrokerOptions(), file, ManualClock(), slow)
        table.load()
        waiting = []
        for number in range(100):
            table.update(topic(f"T{number}"))
            waiting.append(asyncio.ensure_future(table.save_changes()))
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())
    assert len(writes) == 2  # the one under way and the one for all that came meanwhile
    lab = ConfigFile(LocalFileSystem(), str(tmp_path / "topics.json")).load(TopicConfigSerializeWrapper.from_value)
    assert lab is not None and "T99" in lab.topic_config_table


def test_caller_that_gives_up_does_not_break_the_write(lab: MetadataLab) -> None:
    async def scenario() -> None:
        lab.topics.update(topic())
        first = asyncio.ensure_future(lab.topics.save_changes())
        second = asyncio.ensure_future(lab.topics.save_changes())
        await asyncio.sleep(0)
        first.cancel()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(scenario())
    assert lab.reopened().topics.find("T") is not None


def test_disk_that_refuses_is_an_error_and_the_next_try_may_succeed(tmp_path: Path) -> None:
    disk = CrashFS()
    lab = MetadataLab(Path("/store"), files=disk)
    lab.topics.update(topic())
    disk.faults = [Fault(kind="eio", at=disk.calls + 1)]
    with pytest.raises(StoreIOError):
        asyncio.run(lab.topics.save_changes())
    assert not lab.topics.is_saved
    disk.faults = []
    asyncio.run(lab.topics.save_changes())
    assert MetadataLab(Path("/store"), files=disk.crash(1)).topics.find("T") == topic()


# Requests

CREATE = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": False,
}


def test_administrator_creates_and_changes_a_topic(lab: MetadataLab) -> None:
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**CREATE, "attributes": "+message.type=FIFO"}).code == 0
    assert lab.reopened().topics.find("T") == topic(attributes={"message.type": "FIFO"})
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**CREATE, "perm": 4, "readQueueNums": 8}).code == 0
    changed = lab.topics.find("T")
    assert changed == replace(topic(perm=4, attributes={"message.type": "FIFO"}), read_queue_nums=8)


@pytest.mark.parametrize(
    "ext",
    [
        {"topic": "a b"},
        {"topic": ""},
        {"topic": "a" * 128},
        {"topic": "TBW102"},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        {"topic": "rmq_sys_x"},
        {"topic": "broker-a"},
        {"readQueueNums": -1},
        {"writeQueueNums": 65_537},
        {"perm": 8},
        {"perm": -1},
        {"topicFilterType": "NO_TAG"},
        {"attributes": "+no.such=1"},
        {"attributes": "message.type=FIFO"},
        {"attributes": "+message.type"},
        {"attributes": "-message.type"},
        {"attributes": "+message.type=ODD"},
        {"attributes": "+message.type=MIXED"},
        {"attributes": "+queue.type=BatchCQ"},
        {"attributes": "+cleanup.policy=COMPACTION"},
        {"attributes": "+reserve.time=soon"},
        {"attributes": "+message.type=FIFO,+message.type=NORMAL"},
        {"attributes": "x" * 5000},
    ],
)
def test_bad_topic_is_refused_and_nothing_changes(lab: MetadataLab, ext: dict[str, Any]) -> None:
    before = lab.topics.all()
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**CREATE, **ext}).code == ResponseCode.INVALID_PARAMETER
    assert lab.topics.all() == before


def test_missing_field_is_named(lab: MetadataLab) -> None:
    ext = {name: value for name, value in CREATE.items() if name != "perm"}
    reply = lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
    assert reply.code == ResponseCode.SYSTEM_ERROR and "perm" in str(reply.remark)


def test_attributes_are_added_changed_and_removed(lab: MetadataLab) -> None:
    for changes, expected in [
        ("+message.type=NORMAL,+reserve.time=-1", {"message.type": "NORMAL", "reserve.time": "-1"}),
        ("+message.type=DELAY", {"message.type": "DELAY", "reserve.time": "-1"}),
        ("-reserve.time", {"message.type": "DELAY"}),
        ("", {"message.type": "DELAY"}),
    ]:
        assert lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**CREATE, "attributes": changes}).code == 0
        found = lab.topics.find("T")
        assert found is not None and found.attributes == expected


def test_mixed_type_needs_its_switch(lab: MetadataLab) -> None:
    lab.options.change({"enableMixedMessageType": "true"})
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**CREATE, "attributes": "+message.type=MIXED"}).code == 0


def test_list_of_topics_is_taken_whole_or_not_at_all(lab: MetadataLab) -> None:
    good = (topic("A", attributes={"+message.type": "FIFO"}), topic("B"))
    body = CreateTopicListRequestBody(topic_config_list=(*good, topic("TBW102")))
    before = lab.topics.all()
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.to_json()).code == 29
    assert lab.topics.all() == before
    body = CreateTopicListRequestBody(topic_config_list=good)
    version = lab.topics.data_version.counter
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.to_json()).code == 0
    assert lab.topics.all()["A"].attributes == {"message.type": "FIFO"}
    assert lab.topics.data_version.counter == version + 1
    assert lab.reopened().topics.find("B") == topic("B")


def test_deleted_topic_takes_offsets_queues_and_pop_retry_topics_along(lab: MetadataLab) -> None:
    lab.topics.update_all([topic(name) for name in ("T", "%RETRY%G_T", "%RETRY%G+T", "%RETRY%G", "U")])
    lab.offsets.commit("G", "T", 0, 5)
    lab.offsets.commit("G", "U", 0, 6)
    assert lab.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code == 0
    assert sorted(lab.deleted) == ["%RETRY%G+T", "%RETRY%G_T", "T"]
    again = lab.reopened()
    assert again.topics.find("T") is None and again.topics.find("%RETRY%G_T") is None
    assert again.topics.find("%RETRY%G") is not None
    assert again.offsets.table() == {"U@G": {0: 6}}


def test_deleting_what_is_not_there_succeeds(lab: MetadataLab) -> None:
    assert lab.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "absent"}).code == 0


@pytest.mark.parametrize("name", ["TBW102", "rmq_sys_wheel_timer", "DefaultCluster"])
def test_system_topic_is_not_deleted(lab: MetadataLab, name: str) -> None:
    assert lab.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name}).code == ResponseCode.INVALID_PARAMETER
    assert lab.topics.find(name) is not None and lab.deleted == []


def test_config_of_one_topic_is_returned_or_code_17(lab: MetadataLab) -> None:
    lab.topics.update(topic())
    reply = lab.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "T", "lo": True})
    assert TopicConfig.from_json(reply.body_bytes) == topic()
    assert lab.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "U"}).code == ResponseCode.TOPIC_NOT_EXIST


def test_all_topics_come_in_one_reply(lab: MetadataLab) -> None:
    reply = lab.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": 0, "maxTopicNum": 1})
    body = TopicConfigSerializeWrapper.from_json(reply.body_bytes)
    assert body.topic_config_table == lab.topics.all()
    assert body.data_version == lab.topics.data_version
    assert "totalTopicNum" not in (reply.ext or {})


def test_system_topics_are_listed(lab: MetadataLab) -> None:
    lab.topics.update(topic())
    reply = lab.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    names = TopicList.from_json(reply.body_bytes).topic_list
    assert {"TBW102", "broker-a", "SCHEDULE_TOPIC_XXXX"} <= set(names) and "T" not in names


def test_attributes_beyond_the_limit_are_refused_and_ignored_when_loaded(
    lab: MetadataLab, caplog: pytest.LogCaptureFixture
) -> None:
    many = {f"name{number}": "v" for number in range(65)}
    config = TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, attributes=many)
    with pytest.raises(RequestError, match="65 attributes") as caught:
        check_attributes({}, many, is_new=True)
    assert caught.value.code == ResponseCode.INVALID_PARAMETER
    with pytest.raises(RequestError, match="65 attributes"):  # what a topic has counts as well
        changed_attributes({f"name{number}": "v" for number in range(64)}, "+message.type=FIFO", is_new=False)
    lab.topics.update(config)  # as a file may have it
    lab.topics.save_now()
    found = lab.reopened().topics.find("T")
    assert found == replace(config, attributes={})
    assert [record.message for record in caplog.records if "topic T" in record.message]
