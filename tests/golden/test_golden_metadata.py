"""Recorded clients and tools against our tables: the same requests get the answers the real broker gave."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.requests.assignment import AssignmentHandler
from flaremq.java_json import parse_java_json
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.support.fake_connection import FakeConnection, ask
from tests.support.golden_frames import FRAMES, decode_one
from tests.support.metadata_lab import MetadataLab

RECORDINGS = ("json-49", "json-55", "binary-client-49", "binary-client-55", "binary-all-55", "client49-server55")
# Sends are not replayed, so what they created is there from the start.
CREATED_BY_SENDS = ("GoldAuto", "%DLQ%CG_RETRY", "%RETRY%CG_POP_GoldPop", "RMQ_SYS_TRACE_TOPIC")

# Bodies that must be the same, as what is compared of each.
SAME_BODY: dict[RequestCode, Callable[[Any], Any]] = {
    # As a set: a client with two connections, as 5.5 has for a moment, is named twice by Java and once by us.
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: lambda body: sorted(set(body["consumerIdList"])),
    RequestCode.LOCK_BATCH_MQ: lambda body: sorted(map(str, body["lockOKMQSet"])),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: lambda body: (
        sorted((one["clientId"], one["language"], one["version"]) for one in body["connectionSet"]),
        {topic: (data["subString"], sorted(data["codeSet"])) for topic, data in body["subscriptionTable"].items()},
        [body[name] for name in ("consumeFromWhere", "consumeType", "messageModel")],
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: lambda body: sorted(
        (one["clientId"], one["language"], one["version"]) for one in body["connectionSet"]
    ),
    RequestCode.GET_TOPIC_CONFIG: lambda body: body,
    RequestCode.QUERY_ASSIGNMENT: lambda body: body,
}


def rows_as_they_happened(recording: str) -> list[dict[str, Any]]:
    """A recording is kept by step, in alphabetical order; connections are numbered in the order they were made."""
    steps: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(FRAMES / f"{recording}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            steps.setdefault(row["step"], []).append(row)

    def time(step: str) -> tuple[bool, int, str]:
        # These end what others use, on connections of long ago.
        return step in ("live-clients-stop", "broker-stop-unregister"), max(number(row) for row in steps[step]), step

    return [row for step in sorted(steps, key=time) for row in steps[step]]


def number(row: dict[str, Any]) -> int:
    return int(str(row["conn"]).removeprefix("c"))


class Replay(MetadataLab):
    """Plays the clients' side of a recording and notes where our answers differ."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.options.change({"enablePropertyFilter": "true"})
        AssignmentHandler(self.options, self.consumers, self.modes, self._find_queues).register(self.table)
        for name in CREATED_BY_SENDS:
            self.topics.update(TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1))
        self.connections: dict[str, FakeConnection] = {}
        self.expected: dict[tuple[str, int], tuple[str, RemotingCommand, RemotingCommand]] = {}
        self.played: Counter[int] = Counter()
        self.differences: list[str] = []

    async def play(self, recording: str) -> None:
        for row in rows_as_they_happened(recording):
            if row["to"] in ("broker", "broker-fast"):
                await self._play_row(row)

    async def _play_row(self, row: dict[str, Any]) -> None:
        name = str(row["conn"])
        connection = self.connections.setdefault(name, FakeConnection(f"127.0.0.1:{len(self.connections) + 1}"))
        if row.get("close"):
            connection.close()
            return
        command = decode_one(bytes.fromhex(row["hex"]))
        if row["dir"] == ">" and not command.is_response and command.code in self.table.entries:
            reply = await ask(self.table, connection, command)
            self.played[command.code] += 1
            self.expected[name, command.opaque] = (row["step"], command, reply)
        elif row["dir"] == "<" and command.is_response:
            found = self.expected.pop((name, command.opaque), None)
            if found is not None:
                self._compare(*found, command)

    def _compare(self, step: str, request: RemotingCommand, ours: RemotingCommand, theirs: RemotingCommand) -> None:
        where = f"{step}, {request}"
        if request.code == RequestCode.GET_CONSUMER_CONNECTION_LIST and request.field("consumerGroup") == "CG_ORDER":
            return  # 5.5.0 never forgot one of the two connections of that client, long closed
        code = 29 if theirs.code == 1 and request.code == RequestCode.UPDATE_AND_CREATE_TOPIC else theirs.code
        if ours.code != code:  # 4.9 has no code for bad parameters
            self.differences.append(f"{where}: {ours} instead of {theirs}")
        same = SAME_BODY.get(RequestCode(request.code))
        if same is not None and ours.code == theirs.code == 0:
            our_part, their_part = same(parse_java_json(ours.body_bytes)), same(parse_java_json(theirs.body_bytes))
            if our_part != their_part:
                self.differences.append(f"{where}: {our_part} instead of {their_part}")

    async def _find_queues(self, topic: str) -> list[MessageQueue] | None:
        config = self.topics.find(topic)
        if config is None:
            return None
        return [MessageQueue(topic, "broker-a", number) for number in range(config.read_queue_nums)]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_recorded_requests_get_the_recorded_answers(recording: str, tmp_path: Path) -> None:
    replay = Replay(tmp_path)
    asyncio.run(replay.play(recording))
    assert replay.played[RequestCode.HEART_BEAT] >= 7
    assert replay.played[RequestCode.GET_CONSUMER_LIST_BY_GROUP] >= 2
    assert replay.differences == []
