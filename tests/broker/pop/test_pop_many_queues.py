"""POP over more queues than the loop may be kept for: looked at in turns, and no arrival in between is missed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flaremq.broker.pop import taking as pop_taking
from flaremq.broker.pop.growth import Growth
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.support.broker_lab import BrokerLab, bodies, run

QUEUES = 40
ASYNC: dict[str, Any] = {"flushDiskType": "ASYNC_FLUSH"}
FIELDS = {"consumerGroup": "g", "topic": "orders", "queueId": -1, "order": "false"}
POP = FIELDS | {"maxMsgNums": 32, "invisibleTime": 60_000, "initMode": 0, "expType": "TAG", "exp": "*"}


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_taking, "_QUEUES_AT_ONCE", 8)


def prepare(lab: BrokerLab) -> None:
    lab.topic("orders", QUEUES)
    lab.broker.state.groups.update(SubscriptionGroupConfig(group_name="g"))


async def send(lab: BrokerLab, queue_id: int, body: bytes) -> None:
    assert (await lab.send("orders", body, queue_id=queue_id)).code == 0


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.POP_MESSAGE, POP | {"pollTime": 0}),
        (RequestCode.PEEK_MESSAGE, FIELDS | {"maxMsgNums": 32}),
        (RequestCode.NOTIFICATION, FIELDS | {"pollTime": 0}),
    ],
    ids=["pop", "peek", "notification"],
)
def test_loop_is_let_go_after_a_bounded_number_of_queues(
    monkeypatch: pytest.MonkeyPatch, code: int, fields: dict[str, Any]
) -> None:
    async def scenario(lab: BrokerLab) -> None:
        prepare(lab)
        turns = 0
        looked: list[int] = []  # queues looked at in each turn of the loop
        is_over = False
        store = lab.broker.store
        usual = store.max_offset

        def max_offset(topic: str, queue_id: int) -> int:
            if topic == "orders":
                looked.append(turns)
            return usual(topic, queue_id)

        async def count_turns() -> None:
            nonlocal turns
            while not is_over:
                turns += 1
                await asyncio.sleep(0)

        monkeypatch.setattr(store, "max_offset", max_offset)
        counting = asyncio.ensure_future(count_turns())
        reply = await lab.ask(code, fields)
        is_over = True
        await counting
        assert reply.code in (0, 19, 210), reply.remark
        assert len(looked) >= QUEUES
        assert max(looked.count(turn) for turn in set(looked)) <= 2 * 8  # a peek asks twice for each

    run(scenario, **ASYNC)


def test_pop_finds_every_message_of_many_queues() -> None:
    async def scenario(lab: BrokerLab) -> None:
        prepare(lab)
        for queue_id in range(0, QUEUES, 3):
            await send(lab, queue_id, b"%d" % queue_id)
        found: list[bytes] = []
        while True:
            reply: RemotingCommand = await lab.ask(RequestCode.POP_MESSAGE, POP | {"pollTime": 0})
            if reply.code != 0:
                break
            found += bodies(reply)
        assert sorted(map(int, found)) == list(range(0, QUEUES, 3))

    run(scenario, **ASYNC)


def test_message_for_a_queue_already_looked_at_is_found_by_the_same_pop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(lab: BrokerLab) -> None:
        prepare(lab)
        taking = lab.broker.state.pop.taking
        usual = taking._pop_queue
        seen: list[int] = []

        async def pop_queue(ask: Any, answer: Any, topic: str, queue_id: int, points: Any) -> None:
            await usual(ask, answer, topic, queue_id, points)
            if topic == "orders":
                seen.append(queue_id)
                if len(seen) == QUEUES - 1:  # the first one is long past, and the pop does not wait for arrivals yet
                    await send(lab, seen[0], b"late")
                    lab.broker.store_loop.dispatching.catch_up()

        monkeypatch.setattr(taking, "_pop_queue", pop_queue)
        reply = await lab.ask(RequestCode.POP_MESSAGE, POP | {"pollTime": 100_000})
        assert (reply.code, bodies(reply)) == (0, [b"late"])

    run(scenario, **ASYNC)


def test_growth_is_seen_by_those_who_watch_the_topic() -> None:
    growth = Growth()
    with growth.watch(["a", "b"]) as watch, growth.watch(["c"]) as other:
        growth.arrived({("x", 0), ("b", 3)})
        assert watch.has_grown and not other.has_grown
        growth.available("c", "group", 0)
        assert other.has_grown
    with growth.watch(["a"]) as later:
        growth.arrived({("b", 0)})
    growth.arrived({("a", 0)})
    assert not later.has_grown
