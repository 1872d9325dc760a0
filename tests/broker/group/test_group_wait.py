"""What senders hear of a SYNC_MASTER, whichever way their messages come in, and what readers see meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flaremq.message.batch import encode_batch_item
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from tests.support.broker_lab import UNIQUE, bodies, until
from tests.support.group_lab import FakeSlave, GroupLab, Member, run

OK = ResponseCode.SUCCESS
AWAY = ResponseCode.SLAVE_NOT_AVAILABLE
LATE = ResponseCode.FLUSH_SLAVE_TIMEOUT
REFUSED = ResponseCode.SYSTEM_ERROR

RULES_49: dict[str, Any] = {"brokerRole": "SYNC_MASTER"}
RULES_5: dict[str, Any] = RULES_49 | {"inSyncReplicas": 2}
WAITS_FOR_NOBODY: dict[str, Any] = RULES_49 | {"inSyncReplicas": 1}
AUTO_1: dict[str, Any] = RULES_49 | {"inSyncReplicas": 3, "enableAutoInSyncReplicas": "true"}
AUTO_2: dict[str, Any] = AUTO_1 | {"minInSyncReplicas": 2}
ASYNC: dict[str, Any] = {"brokerRole": "ASYNC_MASTER", "inSyncReplicas": 2}

Send = Callable[[Member], Awaitable[RemotingCommand]]


async def plain(master: Member) -> RemotingCommand:
    return await master.send("T", b"x")


async def compact(master: Member) -> RemotingCommand:
    return await master.send("T", b"x", serialize_type=1)


async def long_names(master: Member) -> RemotingCommand:
    return await master.send("T", b"x", code=RequestCode.SEND_MESSAGE)


async def batch(master: Member) -> RemotingCommand:
    body = b"".join(encode_batch_item(0, b"x", b"UNIQ_KEY\x01%d" % number) for number in range(3))
    return await master.send("T", body, code=RequestCode.SEND_BATCH_MESSAGE)


async def delayed(master: Member) -> RemotingCommand:
    return await master.send("T", b"x", properties=UNIQUE + "DELAY\x0118\x02")


async def half(master: Member) -> RemotingCommand:
    return await master.send("T", b"x", properties=UNIQUE + "TRAN_MSG\x01true\x02PGROUP\x01writers\x02")


WAYS_IN: list[Send] = [plain, compact, long_names, batch, delayed, half]


async def known_topic(master: Member) -> None:
    """The short ways are taken once a send of the topic has passed."""
    master.topic("T")
    properties = UNIQUE + "WAIT\x01false\x02"
    if not master.broker.store_loop.durability.refuses():
        assert (await master.send("T", b"", properties=properties)).code == OK


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("send", WAYS_IN)
@pytest.mark.parametrize(
    ("rules", "alone", "with_slave", "with_mute_slave"),
    [
        (RULES_49, AWAY, OK, LATE),
        (RULES_5, LATE, OK, LATE),
        (WAITS_FOR_NOBODY, OK, OK, OK),
        (AUTO_1, OK, OK, LATE),
        (AUTO_2, REFUSED, OK, LATE),
        (ASYNC, OK, OK, OK),
    ],
    ids=["4.9", "5.x", "one-copy", "auto-min-1", "auto-min-2", "async"],
)
def test_sender_hears_who_has_its_message(
    rules: dict[str, Any],
    alone: ResponseCode,
    with_slave: ResponseCode,
    with_mute_slave: ResponseCode,
    send: Send,
    flush: str,
    tmp_path: Path,
) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(flushDiskType=flush, slaveTimeout=100, **rules)
        await known_topic(master)
        end = master.log_end
        reply = await send(master)
        assert reply.code == alone, reply.remark
        if alone == REFUSED:
            assert reply.remark == "in-sync replicas not enough"
        assert (master.log_end > end) == (alone != REFUSED), "stored or not as the code says"
        slave = await FakeSlave.join(master)
        assert (await send(master)).code == with_slave
        slave.acknowledges = False
        assert (await send(master)).code == with_mute_slave
        slave.acknowledge()
        await slave.leave()

    run(tmp_path, scenario)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_reply_of_a_message_that_only_the_master_has_names_its_place(flush: str, tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(flushDiskType=flush, **RULES_49)
        await known_topic(master)
        reply = await master.send("T", b"x")
        assert (reply.code, reply.field("queueOffset"), reply.remark) == (AWAY, "1", "SLAVE_NOT_AVAILABLE")
        assert reply.field("msgId")

    run(tmp_path, scenario)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_readers_see_a_message_when_a_slave_has_it_and_not_before(flush: str, tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(flushDiskType=flush, slaveTimeout=50, **RULES_5)
        master.topic("T")
        slave = await FakeSlave.join(master, acknowledges=False)
        waiting = asyncio.create_task(master.pull("T", 0, sysFlag=6, suspendTimeoutMillis=20_000))
        assert (await master.send("T", b"late")).code == LATE
        no_wait = await master.send("T", b"not waited for", properties=UNIQUE + "WAIT\x01false\x02")
        assert no_wait.code == OK
        await until(lambda: slave.received == master.log_end, "the slave was sent both")
        assert master.broker.store.max_offset("T", 0) == 0
        assert (await master.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})).field("offset") == "0"
        slave.acknowledge()
        assert bodies(await waiting)[0] == b"late"
        await until(lambda: master.broker.store.max_offset("T", 0) == 2, "both are shown")
        await slave.leave()

    run(tmp_path, scenario)


def test_waiting_send_hears_at_once_that_its_last_slave_left(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(slaveTimeout=30_000, **RULES_49)
        await known_topic(master)
        slave = await FakeSlave.join(master, acknowledges=False)
        sending = asyncio.create_task(master.send("T", b"x"))
        await until(lambda: master.broker.store_loop.durability.unacknowledged == 1, "the send waits")
        await slave.leave()
        assert (await sending).code == AWAY

    run(tmp_path, scenario)


def test_acknowledgement_of_bytes_that_were_never_sent_counts_for_nothing(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(slaveTimeout=100, **RULES_5)
        await known_topic(master)
        slave = await FakeSlave.join(master, acknowledges=False)
        slave.report(master.log_end + 100_000)
        await until(lambda: not master.broker.ha.server.slaves, "the liar is turned out")
        assert (await master.send("T", b"x")).code == LATE
        await slave.leave()

    run(tmp_path, scenario)


def test_three_copies_take_two_slaves(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(slaveTimeout=100, brokerRole="SYNC_MASTER", inSyncReplicas=3)
        await lab.slave(1)
        await until(lambda: len(master.broker.ha.server.slaves) == 1)
        assert (await master.send("T", b"x")).code == LATE
        await lab.slave(2)
        await until(lambda: len(master.broker.ha.server.slaves) == 2)
        assert (await master.send("T", b"x")).code == OK

    run(tmp_path, scenario)


def test_consumer_that_gives_a_message_back_hears_if_it_is_not_taken(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = await lab.master(**AUTO_2)
        slave = await FakeSlave.join(master)
        sent = await master.sent("T", b"x")
        await slave.leave()
        await until(lambda: not master.broker.ha.server.slaves)
        end = master.log_end
        fields = {
            "offset": sent.physical_offset,
            "group": "readers",
            "delayLevel": 1,
            "originMsgId": "",
            "unitMode": False,
        }
        reply = await master.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        assert reply.code == REFUSED and "in-sync replicas not enough" in str(reply.remark)
        assert master.log_end == end

    run(tmp_path, scenario)
