"""Queries: by key and unique key, by id; replies are the records of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.message.message_ext import MessageExt
from flaremq.message.message_id import decode_message_id
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from tests.support.admin_lab import AdminLab

FOREVER = 2**63 - 1


def records(reply: RemotingCommand) -> list[MessageExt]:
    """The records in a body, cut apart as a client does."""
    body, found = reply.body_bytes, []
    while body:
        size = int.from_bytes(body[:4], "big")
        found.append(MessageExt(body[:size]))
        body = body[size:]
    return found


async def query(lab: AdminLab, key: str, *, topic: str = "T", max_num: int = 32, **ext: object) -> RemotingCommand:
    times = {"beginTimestamp": 0, "endTimestamp": FOREVER} | ext
    return await lab.ask(RequestCode.QUERY_MESSAGE, topic=topic, key=key, maxNum=max_num, **times)


def test_query_by_key_returns_the_records_and_the_end_of_the_index(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for number in range(3):
                last = await lab.send("T", number, b"body %d" % number, keys=["k", f"k{number}"])
            await lab.send("Other", 0, b"same key elsewhere", keys=["k"])
            reply = await query(lab, "k")
            assert reply.code == ResponseCode.SUCCESS
            assert [message.body for message in records(reply)] == [b"body 0", b"body 1", b"body 2"]
            ext = reply.ext or {}
            assert int(str(ext["indexLastUpdatePhyoffset"])) > last.physical_offset
            assert int(str(ext["indexLastUpdateTimestamp"])) == lab.clock.now_ms()
            assert [message.body for message in records(await query(lab, "k1"))] == [b"body 1"]
            assert len(records(await query(lab, "k", max_num=2))) == 2
            assert len(records(await query(lab, "k", max_num=0))) == 1
            assert len(records(await query(lab, "k", max_num=2**31 - 1))) == 3

    asyncio.run(run())


def test_query_by_unique_key_takes_its_own_limit(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for _ in range(2):
                await lab.send("T", 0, b"x", properties={"UNIQ_KEY": "C0000202"})
            reply = await query(lab, "C0000202", max_num=1, _UNIQUE_KEY_QUERY="true")
            assert len(records(reply)) == 2
            reply = await query(lab, "C0000202", max_num=1, indexType="U")
            assert len(records(reply)) == 2

    asyncio.run(run())


def test_query_respects_the_time_range(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await lab.send("T", keys=["k"], body=b"early")
            moment = lab.clock.now_ms()
            await lab.send("T", keys=["k"], body=b"late")
            found = records(await query(lab, "k", beginTimestamp=moment + 1))
            assert [message.body for message in found] == [b"late"]
            found = records(await query(lab, "k", endTimestamp=moment))
            assert [message.body for message in found] == [b"early"]

    asyncio.run(run())


def test_query_without_a_hit_is_answered_not_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await lab.send("T", keys=["k"])
            for reply in (await query(lab, "nobody"), await query(lab, "k", topic="U")):
                assert reply.code == ResponseCode.QUERY_NOT_FOUND
                assert (reply.remark or "").startswith("can not find message")
                assert set(reply.ext or {}) == {"indexLastUpdatePhyoffset", "indexLastUpdateTimestamp"}
            assert (await query(lab, "x" * 40_000)).code == ResponseCode.SYSTEM_ERROR

    asyncio.run(run())


def test_view_returns_the_record_an_offset_id_names(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await lab.send("T")
            put = await lab.send("T", 1, b"look at me")
            _, offset = decode_message_id(put.message_id)
            reply = await lab.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=offset, topic="T")
            assert reply.code == ResponseCode.SUCCESS
            assert [message.body for message in records(reply)] == [b"look at me"]

    asyncio.run(run())


@pytest.mark.parametrize("offset", [-1, 1, 4294967295, 2**63 - 1, -(2**63)])
def test_view_of_no_message_is_an_error_that_names_the_offset(tmp_path: Path, offset: int) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await lab.send("T")
            reply = await lab.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=offset)
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert reply.remark == f"can not find message by the offset, {offset}"

    asyncio.run(run())


@pytest.mark.parametrize("missing", ["topic", "key", "maxNum", "beginTimestamp", "endTimestamp"])
def test_query_names_the_field_that_is_missing(tmp_path: Path, missing: str) -> None:
    async def run() -> None:
        ext = {"topic": "T", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}
        del ext[missing]
        async with AdminLab(tmp_path) as lab:
            reply = await lab.ask(RequestCode.QUERY_MESSAGE, **ext)
            assert reply.code == ResponseCode.SYSTEM_ERROR and missing in (reply.remark or "")

    asyncio.run(run())
