"""Answers that take long to put together: on a thread of their own, one at a time, never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flaremq.broker import pace
from flaremq.broker.administration import progress as consume_stats
from flaremq.broker.pace import Pace, PacedTable, paced
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import RequestCode
from tests.broker.requests.test_pull import heartbeat
from tests.support.broker_lab import BrokerLab, run, until

ASYNC: dict[str, Any] = {"flushDiskType": "ASYNC_FLUSH"}


@pytest.fixture
def stepping(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The threads that worked at a pace, a name for each step."""
    seen: list[str] = []
    usual = Pace.step

    def step(self: Pace) -> None:
        seen.append(threading.current_thread().name)
        usual(self)

    monkeypatch.setattr(Pace, "step", step)
    yield seen


async def prepare(lab: BrokerLab) -> None:
    lab.topic("orders", 300)
    lab.broker.state.groups.update(SubscriptionGroupConfig(group_name="readers"))
    await heartbeat(lab, "readers", {"orders": "*"})
    for queue_id in range(300):
        lab.broker.state.offsets.commit("readers", "orders", queue_id, 0)


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "readers", "topic": "orders"}),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "readers"}),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, {}),
        (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "readers"}),
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": "orders", "group": "readers", "timestamp": "-1"}),
    ],
    ids=lambda value: value.name if isinstance(value, RequestCode) else "",
)
def test_whole_tables_are_rendered_on_the_thread_for_long_work(
    stepping: list[str], code: int, ext: dict[str, str]
) -> None:
    async def scenario(lab: BrokerLab) -> None:
        await prepare(lab)
        reply = await lab.ask(code, {"isForce": "true"} | ext)
        assert reply.code == 0, reply.remark
        assert reply.body_bytes
        assert {name.rpartition("_")[0] for name in stepping} == {"flaremq-long"}

    run(scenario, **ASYNC)


def test_tables_are_looked_up_a_bounded_number_of_queues_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_stats, "_QUEUES_AT_ONCE", 7)
    sizes: list[int] = []

    async def scenario(lab: BrokerLab) -> None:
        await prepare(lab)
        store_loop = lab.broker.store_loop
        usual = store_loop.run_long

        async def run_long(function: Callable[..., Any], *arguments: Any) -> Any:
            if arguments:
                sizes.append(len(arguments[0]))
            return await usual(function, *arguments)

        monkeypatch.setattr(store_loop, "run_long", run_long)
        reply = await lab.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "readers", "topic": "orders"})
        assert reply.code == 0
        assert sum(sizes) == 300 and max(sizes) == 7

    run(scenario, **ASYNC)


def test_others_are_served_while_long_answers_wait_for_each_other() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await prepare(lab)
        released = threading.Event()
        try:
            busy = asyncio.ensure_future(lab.broker.store_loop.run_long(released.wait, 60))
            asked = [
                asyncio.ensure_future(lab.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})) for _ in range(10)
            ]
            lane = lab.broker.handlers.table.lanes["admin"]
            await until(lambda: lane.running == 10)
            assert (await lab.send("orders", b"honest")).code == 0
            lab.broker.store_loop.dispatching.catch_up()
            assert (await lab.pull("orders")).code == 0
            assert not any(task.done() for task in asked)
        finally:
            released.set()
        await busy
        assert {reply.code for reply in await asyncio.gather(*asked)} == {0}

    run(scenario, **ASYNC)


def test_pace_lets_go_once_its_slice_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    pauses: list[float] = []
    monkeypatch.setattr(pace, "monotonic", lambda: now)
    monkeypatch.setattr(pace, "sleep", pauses.append)
    own = Pace()
    own.step()
    assert not pauses
    now = 0.002
    own.step()
    own.step()
    assert len(pauses) == 1


def test_paced_items_are_the_same_items() -> None:
    assert list(paced(range(5))) == [0, 1, 2, 3, 4]
    table = PacedTable({"a": 1, "b": 2})
    assert list(table.items()) == [("a", 1), ("b", 2)]
    assert table == {"a": 1, "b": 2}
