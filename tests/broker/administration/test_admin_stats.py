"""Offsets, lags and times of topics and groups, as mqadmin asks for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.broker.administration import progress as consume_stats
from flaremq.java_json import parse_java_json
from flaremq.protocol.bodies.group import GroupList
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    TopicOffset,
    TopicStatsTable,
)
from flaremq.protocol.bodies.topic import BrokerStatsData, TopicList
from flaremq.protocol.codes import RequestCode, ResponseCode
from tests.support.admin_lab import ADDRESS, AdminLab


def queue(queue_id: int, topic: str = "T") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)


def test_topic_stats_show_every_queue_with_its_ends_and_last_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.topic("T", 2)
            for _ in range(3):
                await lab.send("T", 1)
            lab.statistics.note_put("T", 30, 300)
            lab.clock.advance(10_000)
            lab.statistics.tick(lab.clock.now_ms())
            reply = await lab.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="T")
            body = TopicStatsTable.from_json(reply.body_bytes)
            stored = lab.clock.now_ms() - 10_000
            assert body.offset_table == {
                queue(0): TopicOffset(),
                queue(1): TopicOffset(max_offset=3, last_update_timestamp=stored),
            }
            assert body.topic_put_tps == pytest.approx(30 / 13)
            # Java reads no other form than the queue itself as the key.
            assert b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{' in reply.body_bytes

    asyncio.run(run())


def test_questions_about_an_unknown_topic_are_answered_topic_not_exist(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            reply = await lab.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="nowhere")
            assert (reply.code, reply.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[nowhere] not exist")
            reply = await lab.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="nowhere", group="G")
            assert reply.code == ResponseCode.TOPIC_NOT_EXIST

    asyncio.run(run())


def test_consume_stats_show_lag_and_time_of_the_last_consumed_message(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.topic("T", 2)
            for _ in range(3):
                await lab.send("T", 0)
            lab.offsets.commit("G", "T", 0, 2)
            lab.statistics.note_get("G", "T", 20, 20)
            lab.clock.advance(10_000)
            lab.statistics.tick(lab.clock.now_ms())
            reply = await lab.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="G")
            body = ConsumeStats.from_json(reply.body_bytes)
            second_stored = lab.clock.now_ms() - 11_000
            assert body.offset_table == {
                queue(0): OffsetWrapper(
                    broker_offset=3, consumer_offset=2, pull_offset=2, last_timestamp=second_stored
                ),
                queue(1): OffsetWrapper(),
            }
            assert body.consume_tps == pytest.approx(20 / 13)

    asyncio.run(run())


def test_consume_stats_of_an_online_group_cover_its_subscriptions_only(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for topic in ("T", "Old", "New"):
                lab.topic(topic, 1)
            for topic in ("T", "Old", "Gone"):
                lab.offsets.commit("G", topic, 0, 1)

            async def topics(**ext: str) -> set[str]:
                reply = await lab.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="G", **ext)
                return {queue.topic for queue in ConsumeStats.from_json(reply.body_bytes).offset_table}

            assert await topics() == {"T", "Old"}  # Gone has offsets but is no topic any more
            lab.online("G", topics={"T": "*", "New": "*"})
            assert await topics() == {"T"}
            assert await topics(topic="T") == {"T"}
            assert await topics(topic="Old") == set()
            assert await topics(topicList="Old;T") == {"Old", "T"}
            assert await topics(topic="nowhere") == set()

    asyncio.run(run())


def test_broker_consume_stats_list_every_group_and_the_total_lag(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.topic("T", 2)
            lab.topic("Ordered", 1, order=True)
            for _ in range(5):
                await lab.send("T", 0)
            await lab.send("Ordered")
            for group in ("G", "H"):
                lab.group(group)
                lab.offsets.commit(group, "T", 0, 1)
            lab.offsets.commit("G", "Ordered", 0, 0)
            reply = await lab.ask(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")
            body = ConsumeStatsList.from_json(reply.body_bytes)
            groups = {group: stats for entry in body.consume_stats_list for group, stats in entry.items()}
            assert {"G", "H", "TOOLS_CONSUMER"} <= groups.keys()
            assert groups["TOOLS_CONSUMER"] == ()
            assert [set(stats.offset_table) for stats in groups["H"]] == [{queue(0), queue(1)}]
            assert (body.broker_addr, body.total_diff, body.total_inflight_diff) == (ADDRESS, 4 + 4 + 1, 0)
            reply = await lab.ask(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="true")
            assert ConsumeStatsList.from_json(reply.body_bytes).total_diff == 1

    asyncio.run(run())


def test_an_answer_that_no_frame_could_carry_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_stats, "_QUEUES_MAX", 3)

    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.topic("T", 2)
            lab.topic("U", 2)
            lab.group("G")
            for topic in ("T", "U"):
                lab.offsets.commit("G", topic, 0, 0)
            assert (await lab.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="T")).code == ResponseCode.SUCCESS
            for reply in (
                await lab.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="G"),
                await lab.ask(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false"),
            ):
                assert reply.code == ResponseCode.SYSTEM_ERROR and "4 queues" in (reply.remark or "")

    asyncio.run(run())


def test_time_span_tells_first_last_and_consumed_time_and_the_delay(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.topic("T", 2)
            for _ in range(4):
                await lab.send("T", 0)
            last = lab.clock.now_ms()
            lab.offsets.commit("G", "T", 0, 2)
            lab.clock.advance(60_000)
            reply = await lab.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="T", group="G")
            full, empty = QueryConsumeTimeSpanBody.from_json(reply.body_bytes).consume_time_span_set
            assert (full.message_queue, full.min_timestamp, full.max_timestamp) == (queue(0), last - 3000, last)
            assert (full.consume_timestamp, full.delay_time) == (last - 2000, 61_000)
            assert (empty.min_timestamp, empty.max_timestamp, empty.consume_timestamp, empty.delay_time) == (
                -1,
                -1,
                -1,
                0,
            )
            reply = await lab.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="T", group="Fresh")
            fresh = QueryConsumeTimeSpanBody.from_json(reply.body_bytes).consume_time_span_set[0]
            assert (fresh.consume_timestamp, fresh.delay_time) == (last - 3000, 63_000)

    asyncio.run(run())


def test_groups_of_a_topic_are_those_with_offsets_and_those_online(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.offsets.commit("Offline", "T", 0, 1)
            lab.online("Online", topics={"T": "*"})
            reply = await lab.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="T")
            assert GroupList.from_json(reply.body_bytes).group_list == ("Offline", "Online")
            reply = await lab.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="U")
            assert reply.body_bytes == b'{"groupList":[]}'
            reply = await lab.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="Offline")
            assert TopicList.from_json(reply.body_bytes) == TopicList(topic_list=("T",), broker_addr=ADDRESS)

    asyncio.run(run())


def test_subscription_of_a_group_is_shown_while_it_is_online(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.online("G", topics={"T": "A || B"})
            reply = await lab.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="G", topic="T")
            assert parse_java_json(reply.body_bytes)["subscriptionData"]["subString"] == "A || B"
            reply = await lab.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="G", topic="U")
            assert parse_java_json(reply.body_bytes) == {"group": "G", "topic": "U"}

    asyncio.run(run())


def test_statistics_items_come_with_their_three_windows(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.statistics.note_put("T", 10, 1000)
            lab.clock.advance(10_000)
            lab.statistics.tick(lab.clock.now_ms())
            reply = await lab.ask(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="T")
            body = BrokerStatsData.from_json(reply.body_bytes)
            assert (body.stats_minute.sum, body.stats_minute.tps, body.stats_minute.average_per_call) == (10, 1.0, 10.0)
            assert (body.stats_hour.sum, body.stats_day.sum) == (0, 0)
            reply = await lab.ask(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="U")
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert reply.remark == "The stats <TOPIC_PUT_NUMS> <U> not exist"

    asyncio.run(run())


def test_queue_units_are_shown_as_they_are_with_the_verdict_of_a_groups_filter(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for tag in ("TagA", "TagB", None):
                await lab.send("T", 0, tags=tag)
            lab.online("G", topics={"T": "TagB"})
            ext = {"topic": "T", "queueId": 0, "index": 0, "count": 2}
            reply = await lab.ask(RequestCode.QUERY_CONSUME_QUEUE, **ext)
            body = QueryConsumeQueueResponseBody.from_json(reply.body_bytes)
            assert [(unit.tags_code, unit.eval) for unit in body.queue_data] == [(2598919, False), (2598920, False)]
            assert (body.min_queue_index, body.max_queue_index, body.filter_data) == (0, 3, None)
            assert body.queue_data[1].physic_offset == body.queue_data[0].physic_size
            reply = await lab.ask(
                RequestCode.QUERY_CONSUME_QUEUE, **ext | {"consumerGroup": "G", "index": 1, "count": 9}
            )
            body = QueryConsumeQueueResponseBody.from_json(reply.body_bytes)
            assert [(unit.tags_code, unit.eval) for unit in body.queue_data] == [(2598920, True), (0, False)]
            assert body.subscription_data is not None and body.subscription_data.sub_string == "TagB"
            reply = await lab.ask(RequestCode.QUERY_CONSUME_QUEUE, **ext | {"consumerGroup": "Nobody"})
            body = QueryConsumeQueueResponseBody.from_json(reply.body_bytes)
            assert body.filter_data == "Nobody@T is not online!"
            lab.online("Sql", "client-2", {"T": "a > 5"}, expression_type="SQL92")
            reply = await lab.ask(RequestCode.QUERY_CONSUME_QUEUE, **ext | {"consumerGroup": "Sql"})
            assert '"a > 5"' in (QueryConsumeQueueResponseBody.from_json(reply.body_bytes).filter_data or "")

    asyncio.run(run())


@pytest.mark.parametrize(("index", "count"), [(99, 5), (-1, 5), (0, -1), (2**62, 2**31 - 1)])
def test_units_outside_of_a_queue_are_none(tmp_path: Path, index: int, count: int) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await lab.send("T")
            reply = await lab.ask(RequestCode.QUERY_CONSUME_QUEUE, topic="T", queueId=0, index=index, count=count)
            assert reply.code == ResponseCode.SUCCESS
            assert QueryConsumeQueueResponseBody.from_json(reply.body_bytes).queue_data == ()
            reply = await lab.ask(RequestCode.QUERY_CONSUME_QUEUE, topic="T", queueId=7, index=0, count=1)
            assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "7@T is not exist!")

    asyncio.run(run())
