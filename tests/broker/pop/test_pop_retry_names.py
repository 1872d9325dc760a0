"""POP's retry topics under their newer names, ``%RETRY%group+topic`` (``enableRetryTopicV2``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.topics import encode_topic, is_stored_topic, validate_topic
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.verify.verifier import StoreVerifier
from tests.broker.pop_lab import GROUP, RETRY_TOPIC, SMALL, TOPIC, PopLab, run
from tests.support.broker_lab import BrokerLab
from tests.support.broker_lab import run as run_broker

NEW_NAME = f"%RETRY%{GROUP}+{TOPIC}"


def test_a_message_that_is_not_acknowledged_comes_back_under_the_new_name(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        first = await lab.pop(invisibleTime=10_000)
        await lab.ack(first.messages[0])
        await lab.pass_time(10_000)
        assert [bytes(message.body) for message in lab.messages_of(NEW_NAME)] == [b"b"]
        assert lab.topics.find(RETRY_TOPIC) is None
        again = await lab.pop(invisibleTime=10_000)
        assert (again.bodies, again.messages[0].topic, again.messages[0].receipt.retry) == (["b"], TOPIC, "2")
        await lab.pass_time(10_000)
        third = await lab.pop()
        assert (third.bodies, third.messages[0].reconsume_times) == (["b"], 2)
        assert await lab.ack(*third.messages) == [0]
        await lab.pass_time(120_000)
        assert not (await lab.pop()).bodies

    run(tmp_path, scenario, enable_retry_topic_v2=True)


def test_a_held_pop_is_woken_by_a_message_under_the_new_name(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        await lab.pop(invisibleTime=10_000)
        request = lab.pop_request(pollTime=60_000, bornTime=lab.clock.now_ms())
        assert await lab.begin(request) is None
        await lab.pass_time(10_000)
        assert (await lab.reply_to(request)).code == 0

    run(tmp_path, scenario, enable_retry_topic_v2=True)


@pytest.mark.parametrize("is_read", [True, False])
def test_what_waits_under_the_old_name_is_read_after_the_change(tmp_path: Path, is_read: bool) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("old")
        await lab.pop(invisibleTime=10_000)
        await lab.pass_time(10_000)
        assert lab.messages_of(RETRY_TOPIC) and lab.topics.find(NEW_NAME) is None
        lab.options = replace(lab.options, enable_retry_topic_v2=True, retrieve_message_from_pop_retry_topic_v1=is_read)
        await lab.restart()
        await lab.send("new")
        await lab.pop(invisibleTime=1_000_000, maxMsgNums=1, queueId=0)
        found = await lab.pop(invisibleTime=10_000)
        assert found.bodies == (["old"] if is_read else [])
        if is_read:  # tried again where it is, and settled there
            assert found.messages[0].receipt.retry == "1"
            await lab.pass_time(10_000)
            again = await lab.pop()
            assert again.bodies == ["old"]
            assert await lab.ack(*again.messages) == [0]
            assert len(lab.messages_of(RETRY_TOPIC)) == 2

    run(tmp_path, scenario)


def test_the_new_name_survives_a_crash_and_the_store_is_sound(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        await lab.pop(invisibleTime=10_000)
        await lab.pass_time(10_000)
        await lab.crash(saved_offsets=True)
        assert [bytes(message.body) for message in lab.messages_of(NEW_NAME)] == [b"a"]
        assert (await lab.pop()).bodies == ["a"]

    run(tmp_path, scenario, enable_retry_topic_v2=True)
    (root,) = (path.parent for path in tmp_path.rglob("commitlog"))
    with StoreReader.open(root, index_geometry=IndexGeometry(SMALL.max_hash_slot_num, SMALL.max_index_num)) as reader:
        assert [str(finding) for finding in StoreVerifier(reader).findings()] == []


def test_the_plus_is_legal_in_this_place_only() -> None:
    assert encode_topic(NEW_NAME) == NEW_NAME.encode()
    assert is_stored_topic(NEW_NAME) and not is_stored_topic(NEW_NAME + "\n")
    assert encode_topic(f"%RETRY%{'g' * 100}+{'t' * 100}")
    for name in ("a+b", "+", "%RETRY%+t", "%RETRY%g+", "%RETRY%g+t+u", "%DLQ%g+t", "%RETRY%../g+t", NEW_NAME + "\n"):
        assert not is_stored_topic(name), name
        with pytest.raises(InvalidArgumentError):
            encode_topic(name)
    with pytest.raises(InvalidArgumentError):
        encode_topic(f"%RETRY%{'g' * 200}+{'t' * 100}")
    with pytest.raises(InvalidArgumentError):
        validate_topic(NEW_NAME)


def test_clients_do_not_make_such_topics() -> None:
    async def scenario(lab: BrokerLab) -> None:
        assert (await lab.send(NEW_NAME)).code == ResponseCode.INVALID_PARAMETER
        fields = {"topic": NEW_NAME, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        reply = await lab.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, fields | {"topicFilterType": "SINGLE_TAG", "order": False}
        )
        assert reply.code == ResponseCode.INVALID_PARAMETER
        assert lab.broker.state.topics.find(NEW_NAME) is None

    run_broker(scenario, enableRetryTopicV2=True)
