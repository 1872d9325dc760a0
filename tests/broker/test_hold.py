"""PullRequestHoldService alone: who is tried when, and that nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flaremq.broker.hold import PullRequestHoldService
from flaremq.broker.pull_request import EVERYTHING, HeldPull
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.support.broker_lab import until
from tests.support.fake_connection import FakeConnection


class Bench:
    """A hold service whose attempts the test decides about."""

    def __init__(self) -> None:
        self.gate: Any = SimpleNamespace(
            on_arrival=[], eager=0, driver=SimpleNamespace(undispatched=0), hurry=self._hurry
        )
        self.hurried = 0
        self.tried: list[tuple[HeldPull, bool]] = []
        self.answers: set[HeldPull] = set()  # these find something
        self.broken: set[HeldPull] = set()
        self.service = PullRequestHoldService(self.gate, self._attempt)

    def _hurry(self) -> None:
        self.hurried += 1

    def _attempt(self, pull: HeldPull, whatever: bool) -> bool:
        self.tried.append((pull, whatever))
        if pull in self.broken:
            raise ZeroDivisionError("a filter that cannot be evaluated")
        return whatever or pull in self.answers

    def hold(
        self, seconds: float = 30.0, topic: str = "orders", queue_id: int = 0, connection: FakeConnection | None = None
    ) -> HeldPull:
        request = RemotingCommand.request(RequestCode.PULL_MESSAGE)
        pull = HeldPull(connection or FakeConnection(), request, "group", topic, queue_id, 0, 32, 1024, EVERYTHING)
        self.service.hold(pull, seconds)
        return pull

    def arrive(self, *places: tuple[str, int]) -> list[HeldPull]:
        """Queues grow; who was tried."""
        self.tried.clear()
        for callback in self.gate.on_arrival:
            callback(set(places))
        return [pull for pull, _ in self.tried]

    def check_empty(self) -> None:
        assert (self.service.size, self.gate.eager) == (0, 0)
        assert not self.service._held


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(Bench()), 60)

    asyncio.run(main())


def test_arrival_tries_those_who_wait_at_that_queue_and_no_others() -> None:
    async def scenario(bench: Bench) -> None:
        first, second = bench.hold(), bench.hold()
        other_queue, other_topic = bench.hold(queue_id=1), bench.hold(topic="other")
        assert (bench.service.size, bench.gate.eager) == (4, 4)
        assert bench.arrive(("orders", 0)) == [first, second]
        assert bench.arrive(("orders", 7), ("unknown", 0)) == []
        bench.answers = {second, other_topic}
        assert set(bench.arrive(("orders", 0), ("other", 0))) == {first, second, other_topic}
        assert bench.service.size == 2
        assert bench.arrive(("orders", 0), ("other", 0)) == [first]
        bench.service.answer_all()
        assert [(pull, whatever) for pull, whatever in bench.tried[1:]] == [(first, True), (other_queue, True)]
        bench.check_empty()

    run(scenario)


def test_pulls_end_in_the_order_of_their_deadlines_whatever_the_order_they_came_in() -> None:
    async def scenario(bench: Bench) -> None:
        late, early, middle = bench.hold(0.3), bench.hold(0.05), bench.hold(0.15)
        await until(lambda: len(bench.tried) == 3)
        assert bench.tried == [(early, True), (middle, True), (late, True)]
        bench.check_empty()

    run(scenario)


def test_pull_that_was_answered_is_not_tried_again_when_its_time_is_over() -> None:
    async def scenario(bench: Bench) -> None:
        answered = bench.hold(0.05)
        bench.answers = {answered}
        bench.arrive(("orders", 0))
        bench.tried.clear()
        last = bench.hold(0.1)
        await until(lambda: bool(bench.tried))
        assert bench.tried == [(last, True)]
        bench.check_empty()

    run(scenario)


def test_one_that_cannot_be_tried_gets_an_error_and_the_others_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        connection = FakeConnection()
        broken, whole = bench.hold(connection=connection), bench.hold()
        bench.broken, bench.answers = {broken}, {whole}
        assert bench.arrive(("orders", 0)) == [broken, whole]
        bench.check_empty()
        (reply,) = connection.replies
        assert reply.code == 1 and "Traceback" not in str(reply.remark)
        broken, whole = bench.hold(0.05), bench.hold(0.1)
        bench.broken = {broken}
        bench.tried.clear()
        await until(lambda: len(bench.tried) == 2)
        bench.check_empty()

    run(scenario)


def test_closed_connection_takes_its_pulls_along() -> None:
    async def scenario(bench: Bench) -> None:
        leaving, staying = FakeConnection(), FakeConnection()
        for queue_id in range(50):
            bench.hold(connection=leaving, queue_id=queue_id)
        kept = bench.hold(connection=staying)
        leaving.close()
        assert (bench.service.size, bench.gate.eager) == (1, 1)
        assert bench.arrive(*(("orders", queue_id) for queue_id in range(50))) == [kept]
        staying.close()
        bench.check_empty()
        assert not bench.service._of_connection

    run(scenario)


def test_connection_that_pulls_for_ever_leaves_nothing_behind() -> None:
    async def scenario(bench: Bench) -> None:
        connection = FakeConnection()
        for _ in range(5000):
            pull = bench.hold(connection=connection)
            bench.answers = {pull}
            bench.arrive(("orders", 0))
        assert len(connection.on_close) == 1
        assert len(bench.service._deadlines) <= 1025
        bench.check_empty()

    run(scenario)


def test_pull_that_begins_to_wait_hurries_what_is_on_its_way() -> None:
    async def scenario(bench: Bench) -> None:
        bench.hold()
        assert bench.hurried == 0
        bench.gate.driver.undispatched = 100
        bench.hold()
        assert bench.hurried == 1
        bench.service.answer_all()

    run(scenario)
