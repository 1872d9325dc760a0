"""POP under load: reads on other threads, bounded memory, many acknowledgements at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.pop import table as pop_table
from flaremq.protocol.codes import RequestCode
from flaremq.remoting.handlers import HandlerTable
from tests.broker.pop_lab import GROUP, TOPIC, PopLab, Reply, run


class SlowDisk:
    """Lets every read of a lab go to a worker thread and wait there until told otherwise."""

    def __init__(self, lab: PopLab) -> None:
        self.go = threading.Event()
        self.reads = 0
        self._pull = lab.store_loop.driver.puller.pull
        lab.service.taking._puller = self  # type: ignore[assignment]

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        return True

    def pull(self, *arguments: Any) -> Any:
        self.reads += 1
        assert self.go.wait(10)
        return self._pull(*arguments)


def test_two_pops_that_read_a_slow_disk_never_get_the_same_message(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        disk = SlowDisk(lab)
        first = asyncio.ensure_future(lab.pop(maxMsgNums=1))
        await lab.eventually(lambda: disk.reads == 1)
        second = await lab.pop(maxMsgNums=1)
        assert (second.code, second.rest) == (210, 2)
        disk.go.set()
        assert (await first).bodies == ["a"]
        assert (await lab.pop()).bodies == ["b"]

    run(tmp_path, scenario)


def test_a_pop_that_found_a_queue_busy_is_woken_when_it_is_free(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        disk = SlowDisk(lab)
        first = asyncio.ensure_future(lab.pop(maxMsgNums=1))
        await lab.eventually(lambda: disk.reads == 1)
        request = lab.pop_request(pollTime=15_000)
        assert await lab.begin(request) is None
        disk.go.set()
        assert (await first).bodies == ["a"]
        assert Reply(await lab.reply_to(request), TOPIC).bodies == ["b"]

    run(tmp_path, scenario)


def test_a_reset_during_a_slow_read_is_not_lost(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        await lab.ack(*(await lab.pop(maxMsgNums=2)).messages)
        disk = SlowDisk(lab)
        reading = asyncio.ensure_future(lab.pop())
        await lab.eventually(lambda: disk.reads == 1)
        lab.offsets.reset(GROUP, TOPIC, 0, 0)
        disk.go.set()
        assert (await reading).bodies == ["c"]
        lab.clock.advance(1)
        assert (await lab.pop()).bodies == ["a", "b", "c"]

    run(tmp_path, scenario)


def test_beyond_the_limit_of_unacknowledged_pops_the_client_is_told_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop_table, "CHECK_POINTS_MAX", 2)

    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        (first,) = (await lab.pop(maxMsgNums=1)).messages
        await lab.pop(maxMsgNums=1)
        assert (await lab.pop(pollTime=15_000)).code == 209
        await lab.ack(first)
        assert (await lab.pop(pollTime=15_000)).bodies == ["c"]

    run(tmp_path, scenario)


def test_acknowledgements_that_arrive_together_share_a_record(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send(*(f"m{number}" for number in range(32)))
        reply = await lab.pop()
        await lab.pass_time(10_000)
        assert await lab.ack(*reply.messages) == [0] * 32
        assert [record.tags for record in lab.revive_records()] == ["ck", "bAck"]

    run(tmp_path, scenario)


@pytest.mark.slow
def test_settled_pops_leave_nothing_behind_in_memory(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        for _ in range(40):
            await lab.send(*(f"m{number}" for number in range(64)))
            while (reply := await lab.pop()).messages:
                await lab.ack(*reply.messages)
            await lab.pass_time(1)
        table = lab.service.table
        assert len(table) == 0
        assert table._queues == {}
        assert len(table._due) <= 1024
        assert lab.committed() == 40 * 64
        await lab.pass_time(60_000)
        assert len(table._fresh) == 0
        assert len(table._due) == 0

    run(tmp_path, scenario)


def test_every_pop_code_has_a_handler(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        table = HandlerTable()
        lab.handler.register(table)
        lab.acks.register(table)
        assert sorted(table.entries) == sorted(
            [
                RequestCode.POP_MESSAGE,
                RequestCode.ACK_MESSAGE,
                RequestCode.PEEK_MESSAGE,
                RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
                RequestCode.NOTIFICATION,
                RequestCode.POLLING_INFO,
                RequestCode.BATCH_ACK_MESSAGE,
            ]
        )

    run(tmp_path, scenario)
