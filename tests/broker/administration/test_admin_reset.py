"""Resetting and cloning offsets: by the broker itself, and by its clients as RocketMQ 4.9 does it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.java_json import parse_java_json
from flaremq.protocol.bodies.stats import ResetOffsetBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from tests.support.admin_lab import AdminLab

BY_CLIENTS = BrokerOptions(use_server_side_reset_offset=False)


async def reset(lab: AdminLab, timestamp: int = -1, **ext: object) -> RemotingCommand:
    fields = {"topic": "T", "group": "G", "timestamp": timestamp, "isForce": True} | ext
    return await lab.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields)


def offsets_in(reply: RemotingCommand) -> dict[int, int]:
    table = ResetOffsetBody.from_json(reply.body_bytes).offset_table
    return {queue.queue_id: offset for queue, offset in table.items()}


async def filled(lab: AdminLab) -> int:
    """Two queues, four messages in the first; the time of the second one."""
    lab.topic("T", 2)
    lab.group("G")
    times = []
    for _ in range(4):
        await lab.send("T", 0)
        times.append(lab.clock.now_ms())
    return times[1]


def test_reset_to_a_time_commits_and_stays_pending_until_a_pull_takes_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            second = await filled(lab)
            lab.offsets.commit("G", "T", 0, 4)
            reply = await reset(lab, second)
            assert reply.code == ResponseCode.SUCCESS
            assert offsets_in(reply) == {0: 1, 1: 0}
            assert lab.offsets.find("G", "T", 0) == 1
            assert b'"T@G"' in (tmp_path / "config" / "consumerOffset.json").read_bytes()
            assert not lab.offsets.commit("G", "T", 0, 4)  # the client does not know yet
            assert lab.offsets.take_reset("G", "T", 0) == 1
            assert lab.offsets.commit("G", "T", 0, 4)

    asyncio.run(run())


def test_reset_to_the_end_skips_everything(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await filled(lab)
            assert offsets_in(await reset(lab, -1)) == {0: 4, 1: 0}

    asyncio.run(run())


def test_reset_of_one_queue_to_an_offset_leaves_the_others(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            second = await filled(lab)
            assert offsets_in(await reset(lab, 0, queueId=0, offset=3)) == {0: 3}
            assert offsets_in(await reset(lab, second, queueId=0, offset=-1)) == {0: 1}
            assert lab.offsets.find("G", "T", 1) == -1
            for bad in ({"queueId": 0, "offset": 5}, {"queueId": 2}, {"queueId": 0, "offset": -2}):
                reply = await reset(lab, 0, **bad)
                assert reply.code == ResponseCode.SYSTEM_ERROR, bad
            assert lab.offsets.find("G", "T", 0) == 1

    asyncio.run(run())


def test_reset_of_unknown_topic_or_group_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await filled(lab)
            assert (await reset(lab, topic="U")).code == ResponseCode.TOPIC_NOT_EXIST
            assert (await reset(lab, group="H")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            assert "H" not in lab.groups

    asyncio.run(run())


# By the clients


def test_clients_of_the_group_are_told_to_move(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path, BY_CLIENTS) as lab:
            second = await filled(lab)
            for queue_id, offset in ((0, 4), (1, 0)):
                lab.offsets.commit("G", "T", queue_id, offset)
            java = lab.online("G", "java", {"T": "*"})
            cpp = lab.online("G", "cpp", {"T": "*"}, language="CPP")
            reply = await reset(lab, second)
            assert offsets_in(reply) == {0: 1, 1: 0}
            [to_java], [to_cpp] = java.take_notified(), cpp.take_notified()
            assert to_java.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET and to_java.is_oneway
            assert to_java.ext == {"topic": "T", "group": "G", "timestamp": str(second), "isForce": "true"}
            assert to_java.body_bytes == reply.body_bytes
            assert parse_java_json(to_cpp.body_bytes)["offsetTable"][0]["offset"] == 1
            assert lab.offsets.find("G", "T", 0) == 4  # the clients commit it

    asyncio.run(run())


def test_without_force_no_offset_moves_forwards(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path, BY_CLIENTS) as lab:
            await filled(lab)
            for queue_id in (0, 1):
                lab.offsets.commit("G", "T", queue_id, 2 if queue_id == 0 else 0)
            lab.online("G", topics={"T": "*"})
            assert offsets_in(await reset(lab, -1, isForce=False)) == {0: 2, 1: 0}
            assert offsets_in(await reset(lab, -1, isForce=True)) == {0: 4, 1: 0}

    asyncio.run(run())


def test_group_without_clients_or_offsets_cannot_be_reset_by_clients(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path, BY_CLIENTS) as lab:
            await filled(lab)
            reply = await reset(lab)
            assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "THe consumer group <G> not exist")
            for queue_id in (0, 1):
                lab.offsets.commit("G", "T", queue_id, 0)
            reply = await reset(lab, 0)
            assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE
            assert reply.remark == "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: 0"
            ancient = lab.online("G", topics={"T": "*"}, version=27)
            assert (await reset(lab)).code == ResponseCode.SYSTEM_ERROR
            assert ancient.take_notified() == []

    asyncio.run(run())


# Cloning


@pytest.mark.parametrize("topic", ["T", None, " "])
def test_clone_puts_a_group_where_another_stands(tmp_path: Path, topic: str | None) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for name in ("T", "U"):
                lab.topic(name)
                lab.offsets.commit("source", name, 1, 7)
            lab.offsets.commit("source", "Gone", 0, 7)
            lab.group("target")
            ext = {"srcGroup": "source", "destGroup": "target", "offline": True}
            reply = await lab.ask(RequestCode.CLONE_GROUP_OFFSET, **ext, **({} if topic is None else {"topic": topic}))
            assert reply.code == ResponseCode.SUCCESS
            assert lab.offsets.topics_of("target") == ({"T"} if topic == "T" else {"T", "U"})
            assert lab.offsets.find("target", "T", 1) == 7

    asyncio.run(run())


def test_clone_of_an_online_group_takes_its_subscriptions_only(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for name in ("T", "Old"):
                lab.topic(name)
                lab.offsets.commit("source", name, 0, 7)
            lab.online("source", topics={"T": "*"})
            lab.group("target")
            await lab.ask(RequestCode.CLONE_GROUP_OFFSET, srcGroup="source", destGroup="target", offline=False)
            assert lab.offsets.topics_of("target") == {"T"}
            reply = await lab.ask(RequestCode.CLONE_GROUP_OFFSET, srcGroup="source", destGroup="unknown")
            assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    asyncio.run(run())
