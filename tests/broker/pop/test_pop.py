"""POP from a client's point of view: take, acknowledge, put off, get again."""

from __future__ import annotations

from pathlib import Path

from flaremq.broker.long_polling.pull_request import wanted_by
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.broker.pop_lab import GROUP, RETRY_TOPIC, TOPIC, PopLab, run


def test_popped_messages_are_not_handed_out_again_while_invisible(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        first = await lab.pop(maxMsgNums=2)
        assert first.code == 0
        assert first.bodies == ["a", "b"]
        assert first.rest == 1
        assert first.ext["startOffsetInfo"] == "0 0 0"
        assert first.ext["msgOffsetInfo"] == "0 0 0,1"
        assert "orderCountInfo" not in first.ext
        assert (await lab.pop()).bodies == ["c"]
        assert (await lab.pop()).code == 210

    run(tmp_path, scenario)


def test_a_pop_of_any_queue_gathers_from_all_and_each_receipt_names_its_queue(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        for queue_id in range(4):
            await lab.send(f"{queue_id}-a", f"{queue_id}-b", queue_id=queue_id)
        reply = await lab.pop()
        assert sorted(reply.bodies) == [f"{queue}-{letter}" for queue in range(4) for letter in "ab"]
        assert {message.receipt.queue_id for message in reply.messages} == {0, 1, 2, 3}
        assert await lab.ack(*reply.messages) == [0] * 8
        assert [lab.committed(queue_id=queue_id) for queue_id in range(4)] == [2] * 4

    run(tmp_path, scenario, queues=4)


def test_a_pop_of_one_queue_leaves_the_others_alone(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("zero", queue_id=0)
        await lab.send("one", queue_id=1)
        assert (await lab.pop(queueId=1)).bodies == ["one"]
        assert (await lab.pop(queueId=1)).code == 210
        assert (await lab.pop(queueId=0)).bodies == ["zero"]

    run(tmp_path, scenario, queues=2)


def test_groups_do_not_see_each_others_pops(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        assert (await lab.pop()).bodies == ["a"]
        assert (await lab.pop(consumerGroup="OTHER")).bodies == ["a"]

    run(tmp_path, scenario)


def test_acknowledged_messages_never_come_back_and_need_no_records(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        reply = await lab.pop()
        assert await lab.ack(*reply.messages) == [0, 0]
        assert lab.committed() == 2
        await lab.pass_time(120_000)
        assert (await lab.pop()).code == 210
        assert lab.revive_records() == []
        assert len(lab.service.table) == 0

    run(tmp_path, scenario)


def test_unacknowledged_messages_come_back_from_the_retry_topic_with_one_more_delivery_counted(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c", TAGS="red")
        reply = await lab.pop(invisibleTime=5_000)
        popped_at = lab.clock.now_ms()
        await lab.ack(reply.messages[1])
        await lab.pass_time(4_999)
        assert (await lab.pop()).code == 210
        await lab.pass_time(1)
        again = await lab.pop()
        assert again.bodies == ["a", "c"]
        assert [message.reconsume_times for message in again.messages] == [1, 1]
        assert [message.receipt.retry for message in again.messages] == ["1", "1"]
        assert again.messages[0].properties["UNIQ_KEY"] == "ID-a"
        assert again.messages[0].properties["TAGS"] == "red"
        assert again.messages[0].properties["1ST_POP_TIME"] == str(popped_at)
        stored = lab.messages_of(RETRY_TOPIC)
        assert [message.topic for message in stored] == [RETRY_TOPIC] * 2
        assert "POP_CK" not in stored[0].properties
        assert await lab.ack(*again.messages) == [0, 0]
        await lab.pass_time(120_000)
        assert (await lab.pop()).code == 210
        assert lab.committed() == 3
        assert lab.committed(RETRY_TOPIC) == 2

    run(tmp_path, scenario)


def test_a_retried_message_counts_on_and_keeps_its_first_pop_time(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        first_time = lab.clock.now_ms()
        for count in range(4):
            reply = await lab.pop(invisibleTime=1_000)
            assert [message.reconsume_times for message in reply.messages] == [count]
            await lab.pass_time(1_000)
        assert lab.messages_of(RETRY_TOPIC)[-1].properties["1ST_POP_TIME"] == str(first_time)

    run(tmp_path, scenario)


def test_after_the_last_retry_a_message_is_a_dead_letter(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        lab.set_group(retry_max_times=2)
        await lab.send("a", KEYS="k1")
        for _ in range(3):
            assert (await lab.pop(invisibleTime=1_000)).bodies == ["a"]
            await lab.pass_time(1_000)
        assert (await lab.pop()).code == 210
        (dead,) = lab.messages_of(f"%DLQ%{GROUP}")
        assert dead.reconsume_times == 3
        assert dead.properties["RETRY_TOPIC"] == TOPIC
        assert dead.properties["DLQ_ORIGIN_TOPIC"] == TOPIC
        assert dead.properties["UNIQ_KEY"] == "ID-a"
        assert dead.properties["KEYS"] == "k1"

    run(tmp_path, scenario)


def test_retries_are_looked_at_first_by_the_configured_share_of_pops(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("old")
        await lab.pop(invisibleTime=1_000)
        await lab.pass_time(1_000)
        await lab.send("new")
        assert (await lab.pop(maxMsgNums=1)).bodies == ["old"]

    run(tmp_path, scenario, pop_from_retry_probability=100)


def test_normal_and_retried_messages_of_queue_0_in_one_reply_have_their_own_receipts(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("old")
        await lab.pop(invisibleTime=1_000)
        await lab.pass_time(1_000)
        await lab.send("new")
        reply = await lab.pop()
        assert sorted(reply.bodies) == ["new", "old"]
        assert await lab.ack(*reply.messages) == [0, 0]
        assert lab.committed() == 2
        assert lab.committed(RETRY_TOPIC) == 1

    run(tmp_path, scenario)


def test_batch_ack_settles_messages_of_several_pops_and_retries(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        await lab.pop(invisibleTime=1_000, maxMsgNums=1)
        await lab.pass_time(1_000)
        reply = await lab.pop()
        assert sorted(reply.bodies) == ["a", "b", "c"]
        assert (await lab.batch_ack(*reply.messages)).code == 0
        await lab.pass_time(120_000)
        assert (await lab.pop()).code == 210
        assert lab.committed() == 3

    run(tmp_path, scenario)


def test_an_empty_or_broken_batch_ack_is_an_error(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        assert (await lab.call(RequestCode.BATCH_ACK_MESSAGE, None, b'{"brokerName":"b","acks":[]}')).code == 208
        for body in (b"", b"[]", b"{", b'{"brokerName":"b","acks":[{"b":"**"}]}'):
            assert (await lab.call(RequestCode.BATCH_ACK_MESSAGE, None, body)).code == 1

    run(tmp_path, scenario)


def test_change_of_invisible_time_gives_a_new_receipt_and_voids_the_old_one(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        (message,) = (await lab.pop(invisibleTime=5_000)).messages
        old = message.receipt
        response = await lab.change(old, 20_000)
        assert response.code == 0
        assert response.ext is not None
        new = old._replace(
            start_offset=old.queue_offset,
            pop_time=int(response.ext["popTime"]),
            invisible_time=int(response.ext["invisibleTime"]),
            revive_queue_id=int(response.ext["reviveQid"]),
        )
        assert new.revive_time - lab.clock.now_ms() in (20_000, 20_001)
        await lab.ack_receipt(old)
        assert (await lab.change(old, 1)).code == 208
        await lab.pass_time(19_000)
        assert (await lab.pop()).code == 210
        await lab.pass_time(1_001)
        assert (await lab.pop()).bodies == ["a"]
        assert (await lab.change(new, 1)).code == 208

    run(tmp_path, scenario)


def test_a_message_can_be_put_off_again_and_acknowledged_by_the_last_receipt(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        (message,) = (await lab.pop(invisibleTime=5_000)).messages
        receipt = message.receipt
        for _ in range(3):
            response = await lab.change(receipt, 5_000)
            assert response.ext is not None
            receipt = receipt._replace(
                pop_time=int(response.ext["popTime"]), invisible_time=int(response.ext["invisibleTime"])
            )
            await lab.pass_time(4_000)
        assert (await lab.ack_receipt(receipt)).code == 0
        await lab.pass_time(60_000)
        assert (await lab.pop()).code == 210
        assert lab.committed() == 1

    run(tmp_path, scenario)


def test_a_message_put_off_with_suspend_comes_back_without_counting_a_delivery(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        lab.set_group(retry_max_times=0)
        await lab.send("a")
        (message,) = (await lab.pop(invisibleTime=5_000)).messages
        assert (await lab.change(message.receipt, 1_000, suspend="true")).code == 0
        await lab.pass_time(1_001)
        (again,) = (await lab.pop()).messages
        assert again.reconsume_times == 0

    run(tmp_path, scenario)


def test_tag_filter_skips_messages_for_the_group_and_commits_past_them(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("r1", TAGS="red")
        await lab.send("b1", TAGS="blue")
        await lab.send("r2", TAGS="red")
        await lab.send("b2", TAGS="blue")
        reply = await lab.pop(exp="red || green")
        assert reply.bodies == ["r1", "r2"]
        assert reply.ext["msgOffsetInfo"] == "0 0 0,2"
        await lab.ack(*reply.messages)
        assert (await lab.pop(exp="red || green")).code == 210
        assert lab.committed() == 4

    run(tmp_path, scenario)


def test_sql_filter_decides_by_properties(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        for number in range(6):
            await lab.send(f"m{number}", a=str(number))
        reply = await lab.pop(expType="SQL92", exp="a > 2 AND a <> 4")
        assert reply.bodies == ["m3", "m5"]
        assert (
            await lab.call(RequestCode.POP_MESSAGE, dict(lab.pop_request(expType="SQL92", exp="a >").ext or {}))
        ).code == 23

    run(tmp_path, scenario, enable_property_filter=True)


def test_sql_filter_needs_leave_as_in_a_pull(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("m", a="3")
        reply = await lab.begin(lab.pop_request(expType="SQL92", exp="a > 2"))
        assert reply is not None and (reply.code, "SQL92" in str(reply.remark)) == (1, True)

    run(tmp_path, scenario, enable_property_filter=False)


def test_filter_that_is_too_long_is_refused_before_it_is_parsed_or_kept(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("m", TAGS="red")
        before = wanted_by.cache_info()
        for kind, expression in (("TAG", "red||" * 500), ("SQL92", "a = 1 OR " * 300 + "a = 2")):
            reply = await lab.begin(lab.pop_request(expType=kind, exp=expression))
            assert reply is not None and reply.code == 23
        assert wanted_by.cache_info() == before
        assert (await lab.pop(exp="red||" * 400)).bodies == ["m"]

    run(tmp_path, scenario, enable_property_filter=True)


def test_a_long_stretch_without_a_match_does_not_hide_what_comes_after(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send(*(f"x{number}" for number in range(1200)), TAGS="blue")
        await lab.send("wanted", TAGS="red")
        assert (await lab.pop(exp="red")).bodies == ["wanted"]

    run(tmp_path, scenario)


def test_a_filter_also_holds_for_retried_messages(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("r", TAGS="red")
        await lab.send("b", TAGS="blue")
        await lab.pop(invisibleTime=1_000)
        await lab.pass_time(1_000)
        assert (await lab.pop(exp="red")).bodies == ["r"]

    run(tmp_path, scenario)


def test_a_new_group_starts_at_the_oldest_or_at_the_latest_message(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        assert (await lab.pop(consumerGroup="MIN", initMode=0)).bodies == ["a", "b", "c"]
        assert (await lab.pop(consumerGroup="MAX", initMode=1)).bodies == ["c"]

    run(tmp_path, scenario, init_pop_offset_by_check_msg_in_mem=False)


def test_a_new_group_starts_a_young_queue_at_its_beginning(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        assert (await lab.pop(consumerGroup="MAX", initMode=1)).bodies == ["a", "b", "c"]

    run(tmp_path, scenario)


def test_a_group_that_starts_at_the_end_of_an_empty_queue_misses_nothing_later(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        assert (await lab.pop(initMode=1)).code == 210
        await lab.send("a", "b")
        assert (await lab.pop(initMode=1)).bodies == ["a", "b"]

    run(tmp_path, scenario, init_pop_offset_by_check_msg_in_mem=False)


def test_an_administrators_reset_moves_the_group(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await lab.pop()
        await lab.ack(*reply.messages)
        lab.clock.advance(10)
        lab.offsets.reset(GROUP, TOPIC, 0, 1)
        assert (await lab.pop()).bodies == ["b", "c"]
        lab.offsets.reset(GROUP, TOPIC, 0, 3)
        assert (await lab.pop()).code == 210

    run(tmp_path, scenario)


def test_a_large_message_does_not_make_the_reply_grow_beyond_a_frame(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        for queue_id in range(8):
            await lab.send("x" * 200_000, queue_id=queue_id)
        reply = await lab.pop()
        assert 1 <= len(reply.messages) <= 2
        assert reply.rest == 8 - len(reply.messages)

    run(tmp_path, scenario, queues=8)


def test_peek_shows_messages_and_leaves_them(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "32"}
        assert (await lab.call(RequestCode.PEEK_MESSAGE, ext)).code == 19
        await lab.send("a", "b")
        for _ in range(2):
            response = await lab.call(RequestCode.PEEK_MESSAGE, ext)
            assert response.code == 0
            assert b"ID-a" in response.body_bytes and b"ID-b" in response.body_bytes
            assert response.ext is not None and int(response.ext["restNum"]) == 2
        await lab.pop()
        assert (await lab.call(RequestCode.PEEK_MESSAGE, ext)).code == 19

    run(tmp_path, scenario)


def test_requests_that_make_no_sense_get_the_code_for_it(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")

        async def code(**changes: object) -> int:
            response = await lab.begin(lab.pop_request(**changes))  # type: ignore[arg-type]
            assert response is not None
            return response.code

        assert await code(topic="absent") == 17
        assert await code(queueId=1) == 29
        assert await code(maxMsgNums=33) == 29
        assert await code(maxMsgNums=0) == 29
        assert await code(invisibleTime=-1) == 29
        assert await code(invisibleTime=2**62) == 29
        assert await code(exp="||") == 23
        assert await code(maxMsgNums="many") == 1
        assert await code(bornTime=lab.clock.now_ms() - 10_000, pollTime=1_000) == 210
        lab.set_group(consume_enable=False)
        assert await code() == 16
        missing = RemotingCommand.request(RequestCode.POP_MESSAGE, {"topic": TOPIC})
        response = await lab.begin(missing)
        assert response is not None and response.code == 1
        assert "consumerGroup" in (response.remark or "")

    run(tmp_path, scenario)


def test_a_group_that_may_not_be_created_is_refused(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        response = await lab.begin(lab.pop_request())
        assert response is not None and response.code == 26

    run(tmp_path, scenario, auto_create_subscription_group=False)


def test_acks_of_what_is_not_there_get_the_code_for_it(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        (message,) = (await lab.pop()).messages
        receipt = message.receipt
        ext = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": "0",
            "offset": "0",
            "extraInfo": receipt.text,
        }

        async def codes(**changes: str) -> tuple[int, int]:
            changed = ext | changes
            ack = await lab.call(RequestCode.ACK_MESSAGE, changed)
            change = await lab.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, changed | {"invisibleTime": "1000"})
            return ack.code, change.code

        assert await codes(topic="absent") == (17, 17)
        assert await codes(queueId="1") == (13, 13)
        assert await codes(queueId="-1") == (13, 13)
        assert await codes(offset="7") == (208, 208)
        assert await codes(extraInfo="1 2 3") == (1, 1)
        assert await codes(extraInfo="x " * 600) == (1, 1)
        assert await codes(extraInfo=receipt._replace(pop_time=99).text) == (0, 208)
        assert (await lab.ack(message)) == [0]
        assert (await lab.ack(message)) == [0]

    run(tmp_path, scenario)


def test_a_deleted_topic_ends_the_care_for_its_messages(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        await lab.pop(invisibleTime=1_000)
        lab.topics.delete(TOPIC)
        await lab.pass_time(1_000)
        assert lab.messages_of(RETRY_TOPIC) == []
        assert len(lab.service.table) == 0

    run(tmp_path, scenario)
