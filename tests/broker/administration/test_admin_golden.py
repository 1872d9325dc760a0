"""Recorded requests of the real mqadmin and clients, asked again: the same reply codes, bodies of the same shape.

The state of the recorded broker is gone, so each request is asked of a broker that was given what the recorded reply
speaks of: topics, groups, offsets, messages, clients. What is compared is what a tool depends on: the code, and which
keys a body has at which place. Our bodies are those of RocketMQ 5; a tool of 4.9 meets some keys it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.java_json import parse_java_json
from flaremq.message.message_ext import MessageExt
from flaremq.options import parse_properties
from flaremq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, ResetOffsetBody, TopicStatsTable
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from tests.support.admin_lab import AdminLab
from tests.support.fake_connection import ask
from tests.support.golden_frames import golden_pairs

CODES = frozenset(
    (
        RequestCode.QUERY_MESSAGE,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.GET_BROKER_HA_STATUS,
    )
)
Shape = frozenset[str]


class Replay:
    """A broker that is made to know what a recorded reply speaks of."""

    def __init__(self, lab: AdminLab) -> None:
        self.lab = lab

    async def prepare(self, request: RemotingCommand, reply: RemotingCommand) -> RemotingCommand:
        """The request to ask, after everything it needs is there."""
        ext = {name: str(value) for name, value in (request.ext or {}).items()}
        body, found = reply.body_bytes, reply.code == ResponseCode.SUCCESS
        match request.code:
            case RequestCode.QUERY_MESSAGE | RequestCode.VIEW_MESSAGE_BY_ID if found:
                ext = await self._with_message(ext, MessageExt(body), request.code)
            case RequestCode.GET_TOPIC_STATS_INFO if found:
                self._topics(TopicStatsTable.from_json(body).offset_table)
            case RequestCode.GET_CONSUME_STATS:
                self._progress(ext["consumerGroup"], [ConsumeStats.from_json(body)])
            case RequestCode.GET_BROKER_CONSUME_STATS:
                for entry in ConsumeStatsList.from_json(body).consume_stats_list:
                    for group, stats in entry.items():
                        self.lab.group(group)
                        self._progress(group, stats)
            case RequestCode.INVOKE_BROKER_TO_RESET_OFFSET:
                self._reset(ext, ResetOffsetBody.from_json(body) if found else None)
            case RequestCode.QUERY_TOPIC_CONSUME_BY_WHO:
                for group in parse_java_json(body)["groupList"]:
                    self.lab.offsets.commit(group, ext["topic"], 0, 0)
            case RequestCode.VIEW_BROKER_STATS_DATA if found:
                self._count(ext["statsName"], ext["statsKey"])
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                client = self.lab.online(ext["consumerGroup"], ext["clientId"])
                client.answers.append(RemotingCommand.response(reply.code, reply.remark, body=body))
            case RequestCode.QUERY_CONSUME_QUEUE:
                for _ in range(parse_java_json(body)["maxQueueIndex"]):
                    await self.lab.send(ext["topic"], int(ext["queueId"]))
        return RemotingCommand(request.code, ext=ext, body=request.body, version=request.version)

    async def _with_message(self, ext: dict[str, str], record: MessageExt, code: int) -> dict[str, str]:
        self.lab.clock.jump(record.store_timestamp - 1_000 - self.lab.clock.now_ms())
        put = await self.lab.send(record.topic, record.queue_id, record.body, properties=dict(record.properties))
        return ext | {"offset": str(put.physical_offset)} if code == RequestCode.VIEW_MESSAGE_BY_ID else ext

    def _topics(self, queues: Iterable[Any]) -> None:
        counts: dict[str, int] = {}
        for queue in queues:
            counts[queue.topic] = max(counts.get(queue.topic, 0), queue.queue_id + 1)
        for topic, count in counts.items():
            self.lab.topic(topic, count)

    def _progress(self, group: str, all_stats: Iterable[ConsumeStats]) -> None:
        for stats in all_stats:
            self._topics(stats.offset_table)
            for queue, offsets in stats.offset_table.items():
                self.lab.offsets.commit(group, queue.topic, queue.queue_id, offsets.consumer_offset)

    def _reset(self, ext: dict[str, str], body: ResetOffsetBody | None) -> None:
        topic, group = ext["topic"], ext["group"]
        self.lab.topic(topic, 4)
        self.lab.group(group)
        for queue_id in range(4):
            self.lab.offsets.commit(group, topic, queue_id, 0)
        if body is not None and not self.lab.options.use_server_side_reset_offset:
            self.lab.online(group, topics={topic: "*"})

    def _count(self, name: str, key: str) -> None:
        if name == "TOPIC_PUT_NUMS":
            self.lab.statistics.note_put(key, 1, 1)
        else:
            assert name == "GROUP_GET_NUMS"
            topic, group = key.split("@")
            self.lab.statistics.note_get(group, topic, 1, 1)


def shape(value: Any, place: str = "") -> Shape:
    """Every place in a JSON value. Names of queues, groups and clients count as any."""
    if isinstance(value, dict):
        any_name = place.endswith(("offsetTable", "consumeStatsList[]"))
        places = (shape(item, f"{place}.{'*' if any_name else key}") for key, item in value.items())
        return frozenset({place}).union(*places)
    if isinstance(value, list):
        return frozenset({place}).union(*(shape(item, f"{place}[]") for item in value))
    return frozenset({place})


def body_shape(code: int, reply: RemotingCommand) -> Shape:
    body = reply.body_bytes
    if not body:
        return frozenset()
    if code in (RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID):
        record = MessageExt(body)
        return frozenset({record.topic, record.body.hex(), *record.properties})
    if code == RequestCode.GET_BROKER_CONFIG:
        return frozenset(parse_properties(body.decode()))
    return shape(parse_java_json(body))


def is_local(place: str) -> bool:
    """Keys that depend on folders and on what was going on."""
    return place.startswith((".table.commitLogDiskRatio_", ".table.scheduleMessageOffset_"))


async def flush_at_will(text: str) -> None:
    """The recorded tool switches the flush mode; what that takes is tested elsewhere."""


@pytest.mark.slow
@pytest.mark.parametrize(("recording", "by_server"), [("json-49", False), ("json-55", True)])
def test_recorded_requests_get_the_same_codes_and_shapes(tmp_path: Path, recording: str, by_server: bool) -> None:
    pairs = [
        (request.step, request.command, reply.command)
        for request, reply in golden_pairs(recording)
        if request.to == "broker" and request.towards and request.command.code in CODES
    ]
    assert len(pairs) > 100
    assert {request.code for _, request, _ in pairs} >= CODES - {RequestCode.GET_BROKER_HA_STATUS}

    async def run() -> None:
        for number, (step, request, expected) in enumerate(pairs):
            options = BrokerOptions(use_server_side_reset_offset=by_server)
            folder = tmp_path / str(number)
            async with AdminLab(folder, options, appliers={"flushDiskType": flush_at_will}) as lab:
                asked = await Replay(lab).prepare(request, expected)
                reply = await ask(lab.table, lab.tool, asked)
            place = f"{step}, request {request.code} {request.ext}"
            assert reply.code == expected.code, f"{place}: {reply.remark}"
            if request.code == RequestCode.GET_BROKER_CONFIG:
                ours, theirs = body_shape(request.code, reply), body_shape(request.code, expected)
                assert len(ours & theirs) > 90
                assert set(reply.ext or ()) == set(expected.ext or ())
                continue
            ours = frozenset(filter(lambda key: not is_local(key), body_shape(request.code, reply)))
            theirs = frozenset(filter(lambda key: not is_local(key), body_shape(request.code, expected)))
            assert theirs <= ours, f"{place}: {sorted(theirs - ours)} is missing"
            if by_server and request.code != RequestCode.GET_BROKER_RUNTIME_INFO:
                assert ours == theirs, f"{place}: {sorted(ours - theirs)} is too much"
            if expected.code != ResponseCode.SUCCESS:
                assert reply.remark == expected.remark

    asyncio.run(run())
