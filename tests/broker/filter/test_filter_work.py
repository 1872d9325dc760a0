"""What a property filter may cost: counted for each pull, and never paid by the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from flaremq.broker.filter import work
from flaremq.broker.filter.expression import TEXT_MATCHES
from flaremq.broker.filter.lane import FilterLane
from flaremq.broker.filter.message_filter import _PropertyFilter, compile_filter
from flaremq.broker.filter.sql import COMPARISONS_MAX
from flaremq.broker.filter.syntax_error import FilterSyntaxError
from flaremq.broker.filter.work import FilterWork
from flaremq.broker.long_polling.pull_request import wanted_by
from flaremq.errors import UnavailableError
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.support.broker_lab import BrokerLab, bodies, run, until

FOUND, AGAIN, NOT_FOUND = 0, 20, 19
SQL: dict[str, Any] = {"expressionType": "SQL92"}
ON: dict[str, Any] = {"enablePropertyFilter": True, "flushDiskType": "ASYNC_FLUSH"}


@pytest.fixture(autouse=True)
def fresh_filters() -> Iterator[None]:
    """No filter of another test, or of this one for the next."""
    wanted_by.cache_clear()
    yield
    wanted_by.cache_clear()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The names of the threads on which property filters were evaluated."""
    seen: set[str] = set()
    usual = _PropertyFilter.matches

    def matches(self: _PropertyFilter, properties: Mapping[str, str]) -> bool:
        seen.add(threading.current_thread().name)
        return usual(self, properties)

    monkeypatch.setattr(_PropertyFilter, "matches", matches)
    yield seen
    assert seen, "no filter was evaluated"
    assert all(name.startswith("flaremq-filter") for name in seen)


async def fill(lab: BrokerLab, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        assert (await lab.send("orders", b"%d" % number, properties=f"a\x01{number}\x02")).code == 0
    lab.broker.store_loop.dispatching.catch_up()


async def pull_all(lab: BrokerLab, expression: str) -> tuple[list[bytes], int]:
    """Everything a consumer gets that follows the offsets it is told, and how many pulls that took."""
    found: list[bytes] = []
    offset = pulls = 0
    while True:
        reply = await lab.pull("orders", offset, subscription=expression, **SQL)
        if reply.code == NOT_FOUND:
            return found, pulls
        assert reply.code in (FOUND, AGAIN), reply.remark
        assert int(reply.field("nextBeginOffset")) > offset, "each pull comes forward"
        offset = int(reply.field("nextBeginOffset"))
        found += bodies(reply)
        pulls += 1


# Never on the loop


def test_pull_with_a_property_filter_is_evaluated_off_the_loop(threads: set[str]) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        await fill(lab, 10)
        reply = await lab.pull("orders", subscription="a >= 4", **SQL)
        assert bodies(reply) == [b"%d" % number for number in range(4, 10)]

    run(scenario, **ON)


def test_pop_with_a_property_filter_is_evaluated_off_the_loop(threads: set[str]) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", queues=1)
        await fill(lab, 10)
        ext = {"consumerGroup": "readers", "topic": "orders", "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000}
        ext |= {
            "pollTime": 0,
            "bornTime": lab.broker.clock.now_ms(),
            "initMode": 0,
            "expType": "SQL92",
            "exp": "a >= 4",
        }
        reply = await lab.ask(RequestCode.POP_MESSAGE, ext)
        assert bodies(reply) == [b"%d" % number for number in range(4, 10)]

    run(scenario, **ON)


def test_held_pull_is_evaluated_off_the_loop_when_its_queue_grows(threads: set[str]) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        held = asyncio.ensure_future(
            lab.pull("orders", subscription="a = 3", sysFlag=6, suspendTimeoutMillis=60_000, **SQL)
        )
        await until(lambda: lab.broker.handlers._pull.holds.size == 1)
        await fill(lab, 3)  # not wanted: it goes on waiting
        await fill(lab, 1, 3)
        reply = await held
        assert (reply.code, bodies(reply)) == (FOUND, [b"3"])
        assert lab.broker.handlers._pull.holds.size == 0

    run(scenario, **ON)


def test_held_pull_whose_time_is_over_is_told_where_it_stands() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        held = asyncio.ensure_future(
            lab.pull("orders", subscription="a = 3", sysFlag=6, suspendTimeoutMillis=60_000, **SQL)
        )
        holds = lab.broker.handlers._pull.holds
        await until(lambda: holds.size == 1)
        (pull,) = holds._held["orders", 0]
        await fill(lab, 3)
        await until(lambda: pull.offset == 3)
        holds.answer_all()
        reply = await held
        assert (reply.code, reply.field("nextBeginOffset")) == (NOT_FOUND, "3")

    run(scenario, **ON)


def test_others_are_served_while_a_filter_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def matches(self: _PropertyFilter, properties: Mapping[str, str]) -> bool:
        entered.set()
        return go_on.wait(60)

    monkeypatch.setattr(_PropertyFilter, "matches", matches)

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        await fill(lab, 1)
        try:
            slow = asyncio.ensure_future(lab.pull("orders", subscription="a = 0", **SQL))
            await until(entered.is_set)
            assert (await lab.send("orders", b"honest")).code == 0
            lab.broker.store_loop.dispatching.catch_up()
            assert bodies(await lab.pull("orders", 1)) == [b"honest"]
            assert not slow.done()
        finally:
            go_on.set()
        assert (await slow).code == FOUND

    run(scenario, **ON)


# Counted


def test_work_ends_with_the_budget_but_never_before_the_first_message() -> None:
    asked: list[int] = []
    filtering = FilterWork(lambda properties: asked.append(1) is None, 3)
    large = {"a": "x" * work.WORK_MAX}
    assert filtering(large) is True
    assert filtering(large) is None and filtering({}) is None
    assert len(asked) == 1


@pytest.mark.parametrize(("comparisons", "count"), [(0, 8), (1, 4), (3, 2), (7, 1)])
def test_every_comparison_costs_the_properties_once_more(comparisons: int, count: int) -> None:
    filtering = FilterWork(lambda properties: False, comparisons)
    message = {"a": "x" * (work.WORK_MAX // 8)}
    assert [filtering(message) for _ in range(count)] == [False] * count
    assert filtering(message) is None


def test_pulls_that_use_up_their_work_find_every_message_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "WORK_MAX", 3 * work.MESSAGE_WORK)

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        await fill(lab, 40)
        expected = [b"%d" % number for number in range(40) if number < 5 or number > 30]
        found, pulls = await pull_all(lab, "a < 5 OR a > 30")
        assert found == expected
        assert pulls >= 40 // 3

    run(scenario, **ON)


def test_held_pull_that_uses_up_its_work_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "WORK_MAX", 1)  # a message a time

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        held = asyncio.ensure_future(
            lab.pull("orders", subscription="a = 9", sysFlag=6, suspendTimeoutMillis=60_000, **SQL)
        )
        await until(lambda: lab.broker.handlers._pull.holds.size == 1)
        await fill(lab, 10)
        assert bodies(await held) == [b"9"]

    run(scenario, **ON)


def test_filter_with_too_many_comparisons_is_refused_with_the_limit() -> None:
    most = " OR ".join(["a='x'"] * COMPARISONS_MAX)
    assert compile_filter("SQL92", most, bytes_max=1 << 16).comparisons == COMPARISONS_MAX
    with pytest.raises(FilterSyntaxError, match=f"more than {COMPARISONS_MAX} comparisons"):
        compile_filter("SQL92", most + " OR a='x'", bytes_max=1 << 16)


@pytest.mark.parametrize(
    ("expression", "comparisons"),
    [
        ("a = 1", 1),
        ("a BETWEEN 1 AND 2", 2),
        ("a IN ('x', 'y') AND b IS NULL", 2),
        ("NOT (a CONTAINS 'x' OR b STARTSWITH 'y') AND c <> 3", 3),
    ],
)
def test_comparisons_are_counted(expression: str, comparisons: int) -> None:
    assert compile_filter("SQL92", expression).comparisons == comparisons


@pytest.mark.parametrize("size", [1, 99, 2_500, 29_999, 30_000, 40_000])
@pytest.mark.parametrize("search", ["ba", "a" * 97 + "ba", "a" * 1_000 + "b", " ", "x   "])
def test_contains_finds_what_is_there_and_nothing_beyond(size: int, search: str) -> None:
    contains = TEXT_MATCHES["CONTAINS"]
    for text in ("a" * size, "a" * size + search, "a" * size + search[:-1], "a" * size + search + "a" * size):
        assert contains(text, search) is (search in text)


# Turns


def in_lane(scenario: Callable[[FilterLane], Any]) -> None:
    async def main() -> None:
        lane = FilterLane()
        try:
            await asyncio.wait_for(scenario(lane), 30)
        finally:
            await lane.close()

    asyncio.run(main())


def test_groups_take_turns_however_many_pulls_one_has() -> None:
    async def scenario(lane: FilterLane) -> None:
        order: list[str] = []
        gate = threading.Event()
        first = asyncio.ensure_future(lane.run("many", gate.wait, 30))
        await asyncio.sleep(0)
        works = [asyncio.ensure_future(lane.run("many", order.append, "many")) for _ in range(5)]
        works.append(asyncio.ensure_future(lane.run("one", order.append, "one")))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, *works)
        assert order == ["many", "one", "many", "many", "many", "many"]

    in_lane(scenario)


def test_error_of_one_read_is_its_own() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def scenario(lane: FilterLane) -> None:
        with pytest.raises(ZeroDivisionError):
            await lane.run("a", fail)
        assert await lane.run("a", lambda: 7) == 7

    in_lane(scenario)


def test_closing_tells_those_who_wait() -> None:
    async def scenario(lane: FilterLane) -> None:
        gate = threading.Event()
        first = asyncio.ensure_future(lane.run("a", gate.wait, 30))
        second = asyncio.ensure_future(lane.run("a", gate.wait, 30))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(lane.close())
        with pytest.raises(UnavailableError):
            await second
        gate.set()
        assert await first is True
        await closing
        with pytest.raises(UnavailableError):
            await lane.run("a", gate.wait)

    in_lane(scenario)


def test_refused_filter_says_which_option_allows_it() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders")
        reply: RemotingCommand = await lab.pull("orders", subscription="a = 1", **SQL)
        assert reply.code == 1 and reply.remark is not None
        assert reply.remark.startswith("The broker does not support consumer to filter message by SQL92")
        assert "enablePropertyFilter=true" in reply.remark

    run(scenario, enablePropertyFilter=False)
