"""PullRequestHoldService alone: who is tried when, and that nothing is left behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flaremq.broker.long_polling import waiting_room
from flaremq.broker.long_polling.held_pulls import PER_CONNECTION_MAX, PullRequestHoldService
from flaremq.broker.long_polling.pull_request import EVERYTHING, HeldPull
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.support.broker_lab import until
from tests.support.fake_connection import FakeConnection


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy otherwise must not end a slice; tests of slices set their own time."""
    monkeypatch.setattr(waiting_room, "_SLICE_SECONDS", 60.0)


class SlowReader(FakeConnection):
    """Reads when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = asyncio.Event()
        self.reads.set()

    @property
    def is_stalled(self) -> bool:
        return not self.reads.is_set()

    async def drain(self) -> None:
        await self.reads.wait()

    def close(self) -> None:
        super().close()
        self.reads.set()


class Bench:
    """A hold service whose attempts the test decides about."""

    def __init__(self) -> None:
        self.dispatching: Any = SimpleNamespace(
            on_arrival=[],
            awaited=Counter(),
            await_topic=self._await_topic,
            forget_topic=self._forget_topic,
            undispatched=0,
        )
        self.hurried = 0
        self.tried: list[tuple[HeldPull, bool]] = []
        self.answers: set[HeldPull] = set()  # these find something
        self.broken: set[HeldPull] = set()
        self.answer_bytes = 0
        self.after_try: Callable[[], None] = lambda: None
        self.service = PullRequestHoldService(self.dispatching, self._attempt)

    def _await_topic(self, topic: str) -> None:
        self.dispatching.awaited[topic] += 1
        if self.dispatching.undispatched > 0:
            self._hurry()

    def _forget_topic(self, topic: str) -> None:
        self.dispatching.awaited[topic] -= 1

    def _hurry(self) -> None:
        self.hurried += 1

    def _attempt(self, pull: HeldPull, whatever: bool) -> bool:
        self.tried.append((pull, whatever))
        self.after_try()
        pull.sent_bytes = self.answer_bytes
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
        for callback in self.dispatching.on_arrival:
            callback(set(places))
        return [pull for pull, _ in self.tried]

    def check_empty(self) -> None:
        assert (self.service.size, sum(self.dispatching.awaited.values())) == (0, 0)
        assert not self.service._held


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(Bench()), 60)

    asyncio.run(main())


def test_arrival_tries_those_who_wait_at_that_queue_and_no_others() -> None:
    async def scenario(bench: Bench) -> None:
        first, second = bench.hold(), bench.hold()
        other_queue, other_topic = bench.hold(queue_id=1), bench.hold(topic="other")
        assert (bench.service.size, sum(bench.dispatching.awaited.values())) == (4, 4)
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
        assert (bench.service.size, sum(bench.dispatching.awaited.values())) == (1, 1)
        assert bench.arrive(*(("orders", queue_id) for queue_id in range(50))) == [kept]
        staying.close()
        bench.check_empty()
        assert not bench.service._room.by_connection

    run(scenario)


def test_pull_whose_connection_closed_before_it_could_be_held_leaves_nothing_behind() -> None:
    async def scenario(bench: Bench) -> None:
        gone = FakeConnection()
        gone.close()  # while its pull was read on a worker thread
        bench.hold(connection=gone)
        bench.check_empty()
        assert not bench.service._room.by_connection

    run(scenario)


def test_connection_that_pulls_for_ever_leaves_nothing_behind() -> None:
    async def scenario(bench: Bench) -> None:
        connection = FakeConnection()
        for _ in range(5000):
            pull = bench.hold(connection=connection)
            bench.answers = {pull}
            bench.arrive(("orders", 0))
        assert len(connection.on_close) == 1
        assert len(bench.service._room._deadlines) <= 1025
        bench.check_empty()

    run(scenario)


def test_pull_that_begins_to_wait_hurries_what_is_on_its_way() -> None:
    async def scenario(bench: Bench) -> None:
        bench.hold()
        assert bench.hurried == 0
        bench.dispatching.undispatched = 100
        bench.hold()
        assert bench.hurried == 1
        bench.service.answer_all()

    run(scenario)


# Many at once, and those who do not read


def test_one_connection_may_hold_so_many_and_others_are_not_its_business() -> None:
    async def scenario(bench: Bench) -> None:
        greedy, modest = FakeConnection(), FakeConnection()
        pulls = [bench.hold(connection=greedy) for _ in range(PER_CONNECTION_MAX - 1)]
        assert bench.service.has_room(greedy)
        pulls.append(bench.hold(connection=greedy))
        assert not bench.service.has_room(greedy) and bench.service.has_room(modest)
        bench.answers = {pulls[17]}
        bench.arrive(("orders", 0))
        await until(lambda: bench.service.size == PER_CONNECTION_MAX - 1)
        assert bench.service.has_room(greedy)
        greedy.close()
        bench.check_empty()

    run(scenario)


def test_those_who_are_woken_together_are_tried_in_slices_and_the_loop_goes_on_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_room, "_SLICE_SECONDS", -1.0)  # one at a time

    async def scenario(bench: Bench) -> None:
        pulls = [bench.hold() for _ in range(20)]
        other = bench.hold(queue_id=1)
        bench.answers = {*pulls, other}
        assert bench.arrive(("orders", 0)) == pulls[:1]
        await asyncio.sleep(0)
        assert [pull for pull, _ in bench.tried] == pulls[:2]
        for callback in bench.dispatching.on_arrival:
            callback({("orders", 0), ("orders", 1)})  # meanwhile more arrives
        assert len(bench.tried) == 2, "it has its turn after the others"
        await until(lambda: bench.service.size == 0)
        assert [pull for pull, _ in bench.tried] == [*pulls, other]
        bench.check_empty()

    run(scenario)


def test_what_arrives_while_others_are_tried_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_room, "_SLICE_SECONDS", -1.0)

    async def scenario(bench: Bench) -> None:
        pulls = [bench.hold() for _ in range(3)]
        assert bench.arrive(("orders", 0)) == pulls[:1]
        bench.answers = set(pulls)  # now there is something, also for the one that was tried in vain
        for callback in bench.dispatching.on_arrival:
            callback({("orders", 0)})
        await until(lambda: bench.service.size == 0)
        bench.check_empty()

    run(scenario)


def test_those_whose_time_is_over_together_are_answered_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_room, "_SLICE_SECONDS", -1.0)

    async def scenario(bench: Bench) -> None:
        turn = 0
        turns: list[int] = []
        bench.after_try = lambda: turns.append(turn)
        for _ in range(10):
            bench.hold(0.001)
        while bench.service.size:
            turn += 1
            await asyncio.sleep(0)
        assert len(set(turns)) == 10, "others had their turn after each"
        bench.check_empty()

    run(scenario)


def test_client_that_does_not_read_is_answered_only_so_much_and_the_rest_when_it_reads() -> None:
    async def scenario(bench: Bench) -> None:
        slow, quick = SlowReader(), FakeConnection()
        pulls = [bench.hold(connection=slow) for _ in range(100)]
        bench.answers, bench.answer_bytes = set(pulls), 256 << 10
        assert bench.arrive(("orders", 0)) == pulls[:4], "a MiB, then it is looked who reads"
        slow.reads.clear()
        other = bench.hold(connection=quick)
        bench.answers.add(other)
        for callback in bench.dispatching.on_arrival:
            callback({("orders", 0)})
        await until(lambda: other.is_over)
        assert [pull for pull, _ in bench.tried] == [*pulls[:4], other]
        assert bench.service.size == 96
        slow.reads.set()  # nothing more arrives
        await until(lambda: bench.service.size == 0)
        assert {pull for pull, _ in bench.tried} == {*pulls, other}
        bench.check_empty()
        assert not bench.service._stalled

    run(scenario)


def test_pull_whose_time_ends_while_its_client_does_not_read_is_answered_when_it_does() -> None:
    async def scenario(bench: Bench) -> None:
        slow = SlowReader()
        slow.reads.clear()
        late, early = bench.hold(0.01, connection=slow), bench.hold(30.0, connection=slow)
        await until(lambda: late.is_late)
        assert bench.tried == [] and bench.service.size == 2
        slow.reads.set()
        await until(lambda: late.is_over)
        assert bench.tried == [(late, True), (early, False)]
        slow.close()
        bench.check_empty()

    run(scenario)


def test_client_that_never_reads_again_leaves_nothing_behind() -> None:
    async def scenario(bench: Bench) -> None:
        slow = SlowReader()
        slow.reads.clear()
        for _ in range(10):
            bench.hold(connection=slow)
        assert bench.arrive(("orders", 0)) == []
        assert slow in bench.service._stalled
        slow.close()
        await until(lambda: not bench.service._stalled)
        bench.check_empty()
        assert not bench.service._room.by_connection and not bench.service._reading

    run(scenario)
