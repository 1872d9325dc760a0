"""Ordered pops: a queue stays shut until its batch is settled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flaremq.broker.pop.order_info import ConsumerOrderInfo
from flaremq.java_json import parse_java_json
from flaremq.storage.config.config_file import render
from tests.broker.pop_lab import GROUP, RETRY_TOPIC, TOPIC, PopLab, Reply, run

KEY = (TOPIC, GROUP, 0)


async def _pop(lab: PopLab, **changes: Any) -> Reply:
    return await lab.pop(order="true", **changes)


def test_a_queue_is_shut_for_the_group_until_its_batch_is_acknowledged(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await _pop(lab, maxMsgNums=2)
        assert reply.bodies == ["a", "b"]
        assert reply.ext["reviveQid"] == "999"
        assert reply.ext["orderCountInfo"] == "0 0 0"
        assert (await _pop(lab)).code == 210
        assert await lab.ack(reply.messages[0]) == [0]
        assert lab.committed() == 1
        assert (await _pop(lab)).code == 210
        assert await lab.ack(reply.messages[1]) == [0]
        assert lab.committed() == 2
        assert (await _pop(lab)).bodies == ["c"]
        assert lab.revive_records() == []

    run(tmp_path, scenario)


def test_other_queues_stay_open(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a0", "b0", queue_id=0)
        await lab.send("a1", queue_id=1)
        first = await _pop(lab, maxMsgNums=1)
        second = await _pop(lab, maxMsgNums=1)
        assert sorted(first.bodies + second.bodies) == ["a0", "a1"]
        assert (await _pop(lab)).code == 210

    run(tmp_path, scenario, queues=2)


def test_what_is_not_acknowledged_in_time_is_read_from_the_queue_again_and_counted(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        first = await _pop(lab, maxMsgNums=2, invisibleTime=5_000)
        await lab.ack(first.messages[0])
        await lab.pass_time(5_000)
        second = await _pop(lab, maxMsgNums=2, invisibleTime=5_000)
        assert [(message.body, message.reconsume_times) for message in second.messages] == [("b", 1), ("c", 0)]
        assert second.ext["orderCountInfo"] == "0 qo0%1 1;0 0 0"
        await lab.pass_time(5_000)
        third = await _pop(lab, maxMsgNums=2)
        assert [(message.body, message.reconsume_times) for message in third.messages] == [("b", 2), ("c", 1)]
        assert third.ext["orderCountInfo"] == "0 qo0%1 2;0 qo0%2 1;0 0 1"
        assert lab.messages_of(RETRY_TOPIC) == []

    run(tmp_path, scenario)


def test_a_repeated_request_with_the_same_attempt_id_gets_the_batch_again(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        assert (await _pop(lab, attemptId="try-1")).bodies == ["a"]
        again = await _pop(lab, attemptId="try-1")
        assert [(message.body, message.reconsume_times) for message in again.messages] == [("a", 0)]
        assert (await _pop(lab, attemptId="try-2")).code == 210
        assert await lab.ack(*again.messages) == [0]
        assert lab.committed() == 1

    run(tmp_path, scenario)


def test_an_old_receipt_does_not_settle_a_newer_batch(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        first = await _pop(lab, invisibleTime=1_000)
        await lab.pass_time(1_000)
        await _pop(lab)
        assert await lab.ack(*first.messages) == [0]
        assert lab.committed() == 0
        assert (await _pop(lab)).code == 210

    run(tmp_path, scenario)


def test_an_offset_that_was_not_handed_out_is_illegal(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        (message,) = (await _pop(lab, maxMsgNums=1)).messages
        assert (await lab.ack_receipt(message.receipt._replace(queue_offset=1))).code == 13

    run(tmp_path, scenario)


def test_putting_off_keeps_the_queue_shut_for_the_new_time(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        (message,) = (await _pop(lab, maxMsgNums=1, invisibleTime=5_000)).messages
        await lab.pass_time(1_000)
        response = await lab.change(message.receipt, 20_000)
        assert response.code == 0
        assert response.ext == {"popTime": str(message.receipt.pop_time), "invisibleTime": "21000", "reviveQid": "999"}
        await lab.pass_time(19_999)
        assert (await _pop(lab)).code == 210
        await lab.pass_time(1)
        assert (await _pop(lab)).bodies == ["a", "b"]

    run(tmp_path, scenario)


def test_waiting_pops_are_woken_when_the_queue_opens_by_ack_or_by_time(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        (message,) = (await _pop(lab, maxMsgNums=1)).messages
        request = lab.pop_request(order="true", pollTime=60_000, maxMsgNums=1, invisibleTime=3_000)
        assert await lab.begin(request) is None
        await lab.ack(message)
        assert Reply(await lab.reply_to(request), TOPIC).bodies == ["b"]
        request = lab.pop_request(order="true", pollTime=60_000)
        assert await lab.begin(request) is None
        await lab.pass_time(3_000)
        assert Reply(await lab.reply_to(request), TOPIC).bodies == ["b"]

    run(tmp_path, scenario)


def test_batch_ack_settles_an_ordered_batch(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await _pop(lab)
        assert (await lab.batch_ack(*reply.messages[:2])).code == 0
        assert lab.committed() == 2
        assert (await lab.batch_ack(reply.messages[2])).code == 0
        assert lab.committed() == 3

    run(tmp_path, scenario)


def test_after_a_crash_unacknowledged_messages_of_a_batch_are_handed_out_again(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        reply = await _pop(lab)
        await lab.ack(reply.messages[0])
        lab.order_info = ConsumerOrderInfo()
        await lab.crash(saved_offsets=True)
        assert (await _pop(lab)).bodies == ["b"]

    run(tmp_path, scenario)


def test_a_reset_opens_the_queue(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        await _pop(lab)
        lab.offsets.reset(GROUP, TOPIC, 0, 0)
        assert (await _pop(lab)).bodies == ["a", "b"]

    run(tmp_path, scenario)


def test_the_file_of_ordered_batches_is_read_back_and_has_the_originals_form() -> None:
    info = ConsumerOrderInfo()
    info.update(KEY, attempt_id="x", pop_time=1000, invisible_time=50, offsets=[7, 8, 10])
    info.update(KEY, attempt_id="y", pop_time=2000, invisible_time=50, offsets=[8, 10, 11])
    info.commit(KEY, 10, 2000)
    info.set_next_visible(KEY, 8, 2000, 9999)
    document = info.to_document()
    assert document == {
        "table": {
            "orders@G": {
                0: {
                    "a": "y",
                    "cm": 2,
                    "i": 50,
                    "l": 2000,
                    "o": [8, 2, 3],
                    "oc": {8: 1, 10: 1},
                    "ot": {8: 9999},
                    "popTime": 2000,
                }
            }
        }
    }
    again = ConsumerOrderInfo()
    again.load(parse_java_json(render(document)))
    assert again.to_document() == document
    assert again.is_blocked(KEY, None, 9998) and not again.is_blocked(KEY, None, 9999)


def test_entries_of_the_file_that_make_no_sense_are_left_out() -> None:
    text = json.dumps(
        {
            "table": {
                "no-group": {"0": {"popTime": 1, "o": [1]}},
                "t@g": {"0": {"popTime": 1, "i": 1, "o": []}, "x": {"popTime": 1, "o": [1]}, "1": 7, "2": {"o": ["q"]}},
                "t@h": {"3": {"popTime": 1, "i": 5, "o": [4], "cm": 0, "l": 1}},
            }
        }
    )
    info = ConsumerOrderInfo()
    info.load(parse_java_json(text))
    assert list(info.to_document()["table"]) == ["t@h"]
    for document in (None, {}, {"table": []}, {"table": {"t@g": None}}):
        ConsumerOrderInfo().load(document)


def test_batches_nobody_used_for_a_day_or_of_deleted_topics_are_forgotten() -> None:
    info = ConsumerOrderInfo()
    day = 24 * 3600 * 1000
    info.update(("t", "g", 0), attempt_id=None, pop_time=0, invisible_time=1, offsets=[0])
    info.update(("t", "g", 1), attempt_id=None, pop_time=day, invisible_time=1, offsets=[0])
    info.update(("gone", "g", 1), attempt_id=None, pop_time=day, invisible_time=1, offsets=[0])
    info.forget(day + 1, lambda key: key[0] != "gone")
    assert list(info.to_document()["table"]) == ["t@g"]
    assert len(info) == 1
