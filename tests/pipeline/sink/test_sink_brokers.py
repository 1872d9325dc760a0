"""A stream of the sink over several brokers, over retention, and on brokers that keep no fences or no index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.broker.service import BrokerService
from flaremq.client.streams.ledger import StreamLedger, StreamName
from flaremq.errors import UnavailableError
from flaremq.message.write_stream import DoubtError, StreamState, link, search_stored, stem_of
from flaremq.pipeline.sink.begun import batch_begun_ms
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.task import TaskIdentity
from flaremq.protocol.codes import RequestCode
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.pipeline.sink_lab import TaskDied, bodies, dying, numbered, options_for, run_task, stored_bodies
from tests.pipeline.wire_lab import WireLab, everything, rows

TASK = TaskIdentity("query", 3, 1)
NAME = StreamName("T", stem_of("stream"), stem_of("batch"), "0" * 16)


class ModelLedger(StreamLedger):
    """A ledger whose brokers are lists of message numbers."""

    def __init__(self, brokers: dict[str, list[int]], *, sends_in_doubt: bool = False) -> None:
        self.brokers = brokers
        self.questions = 0
        self._sends_in_doubt = sends_in_doubt
        self.log_starts: dict[str, int] = {}

    async def open(self, name: StreamName, address: str, *, at_least: int = 0) -> StreamState:
        self.questions += 1
        held = set(self.brokers[address])
        search = search_stored(lambda numbers: held.intersection(numbers), at_least)
        chain = chain_after(search.count) if search.count - 1 in held else 0
        return StreamState(search.count, chain, search.beyond, self.log_starts.get(address, 0))


def chain_after(count: int) -> int:
    chain = 0
    for number in range(count):
        chain = link(chain, number)
    return chain


def opened(ledger: ModelLedger, name: StreamName = NAME) -> Any:
    return asyncio.run(ledger.open_all(name, list(ledger.brokers)))


attempts = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=12)


@given(attempts)
def test_attempts_on_any_brokers_store_each_message_once_and_in_order(attempts: list[tuple[str, int]]) -> None:
    ledger = ModelLedger({"a": [], "b": [], "c": []})
    for broker, length in attempts:
        stored = opened(ledger)
        assert stored.chain == chain_after(stored.count)
        ledger.brokers[broker] += range(stored.count, stored.count + length)
    total = sum(length for _, length in attempts)
    assert sorted(number for held in ledger.brokers.values() for number in held) == list(range(total))


@given(attempts.filter(lambda some: sum(length for _, length in some) > 0), st.data())
def test_what_one_broker_forgot_is_noticed_or_harmless(attempts: list[tuple[str, int]], data: st.DataObject) -> None:
    """Retention takes the oldest of one broker. What is found is never more than what is held without a hole."""
    ledger = ModelLedger({"a": [], "b": [], "c": []})
    count = 0
    for broker, length in attempts:
        ledger.brokers[broker] += range(count, count + length)
        count += length
    forgetful = data.draw(st.sampled_from("abc"))
    held = ledger.brokers[forgetful]
    ledger.brokers[forgetful] = held[data.draw(st.integers(0, len(held))) :]
    first_gone = min(set(range(count + 1)) - {number for some in ledger.brokers.values() for number in some})
    try:
        assert opened(ledger).count in (first_gone, count)
    except DoubtError:
        assert first_gone < count


def test_one_broker_is_asked_once_and_two_until_nobody_has_more() -> None:
    alone = ModelLedger({"a": [*range(100)]})
    assert (opened(alone).count, alone.questions) == (100, 1)
    both = ModelLedger({"a": [*range(0, 4), *range(8, 12)], "b": [*range(4, 8)]})
    assert (opened(both).count, both.questions) == (12, 8)


@pytest.mark.parametrize("sends_in_doubt", [False, True])
def test_a_log_that_begins_after_the_batch_did_leaves_a_doubt(sends_in_doubt: bool) -> None:
    ledger = ModelLedger({"a": [], "b": []}, sends_in_doubt=sends_in_doubt)
    begun = StreamName("T", NAME.stream, NAME.stem, NAME.token, begun_ms=1000)
    ledger.log_starts["b"] = 1000
    assert opened(ledger, begun).count == 0
    ledger.log_starts["b"] = 1001
    assert opened(ledger).count == 0  # nobody knows when it was begun
    if sends_in_doubt:
        assert opened(ledger, begun).count == 0
    else:
        with pytest.raises(DoubtError, match="the log of b begins later than this batch was begun"):
            opened(ledger, begun)
    ledger.brokers["b"] = [0]  # the first is still there, so nothing of the batch was deleted
    assert opened(ledger, begun).count == 1


# With brokers


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[WireLab]:
    with WireLab(str(tmp_path)) as cluster:
        cluster.start("broker-b")
        cluster.topic("T", queues=2)
        yield cluster


def told(lab: WireLab, **more: str) -> SinkOptions:
    return parse_sink_options({"nameServer": lab.name_server, "topic": "T", **more})


def write_to(lab: WireLab, broker: str) -> None:
    """Let only one broker take messages; both are still in the route."""
    for name in ("broker-a", "broker-b"):
        lab.admin.create_topic("T", read_queues=2, write_queues=2, perm=6 if name == broker else 4, broker=name)


def held(lab: WireLab) -> dict[str, list[str]]:
    with lab.open() as source:
        found = rows(source, everything(source, "T"), ("brokerName", "body"))
    by_broker: dict[str, list[str]] = {}
    for row in found:
        by_broker.setdefault(row["brokerName"], []).append(bytes(row["body"]).decode())
    return by_broker


def test_a_batch_over_two_brokers_and_four_attempts_is_stored_once(lab: WireLab) -> None:
    batches = [bodies([f"{text}-" + "x" * 3000 for text in numbered(n, n + 1500)]) for n in range(0, 6000, 1500)]
    for attempt, broker in enumerate(("broker-a", "broker-b", "broker-a"), 1):
        write_to(lab, broker)
        with pytest.raises(TaskDied):
            run_task(told(lab), TASK, dying(*batches[:attempt]), request_bytes=4096)
    assert set(held(lab)) == {"broker-a", "broker-b"}
    write_to(lab, "broker-b")
    run_task(told(lab), TASK, batches)
    found = held(lab)
    everywhere = sorted(text.rpartition("-")[0] for texts in found.values() for text in texts)
    assert everywhere == sorted(numbered(0, 6000))
    write_to(lab, "broker-a")
    assert run_task(told(lab), TASK, batches).stored_before == 6000
    assert held(lab) == found


def expire(lab: WireLab, broker: str) -> None:
    lab.clock.advance(int(time.time() * 1000) - lab.clock.now_ms() + 100 * 3_600_000)  # files have real times
    lab.admin.delete_expired_commit_log(broker=broker)
    lab.admin.clean_expired_queues(broker=broker)


def test_rows_that_retention_took_are_not_stored_a_second_time(lab: WireLab) -> None:
    write_to(lab, "broker-b")
    batch = bodies([text + "x" * 10_000 for text in numbered(0, 300)])  # a log file holds about a hundred
    begun_ms = lab.clock.now_ms()
    lab.clock.advance(1)
    run_task(told(lab), TASK, [batch], begun_ms=begun_ms)
    lab.clock.advance(1)
    expire(lab, "broker-b")
    before = held(lab)
    assert 0 < len(before["broker-b"]) < 300
    with pytest.raises(
        DoubtError, match="message 0 of an earlier attempt is not found in topic 'T', but message 255 is"
    ):
        run_task(told(lab), TASK, [batch])
    with pytest.raises(DoubtError, match="begins later than this batch was begun"):
        run_task(told(lab), TASK, [batch], begun_ms=begun_ms)
    assert held(lab) == before
    run_task(told(lab), TaskIdentity("query", 4, 1), [bodies(["next"])], begun_ms=lab.clock.now_ms())


# Without fences


def without_fences(broker: BrokerService, monkeypatch: pytest.MonkeyPatch, *unanswered: RequestCode) -> None:
    """Make a broker answer as RocketMQ's do."""
    for code in (RequestCode.OPEN_WRITE_STREAM, *unanswered):
        del broker.handlers.table.entries[int(code)]
    monkeypatch.setattr("flaremq.broker.requests.sends.STAMP", "nobody looks at stamps")


def test_brokers_without_fences_are_searched_together(lab: WireLab, monkeypatch: pytest.MonkeyPatch) -> None:
    for broker in (lab.first, lab._others["broker-b"]):
        without_fences(broker, monkeypatch)
    batches = [bodies([text + "x" * 2000 for text in numbered(n, n + 100)]) for n in range(0, 400, 100)]
    for attempt, broker_name in enumerate(("broker-a", "broker-b", "broker-a", "broker-b"), 1):
        write_to(lab, broker_name)
        run_task(told(lab), TASK, batches[:attempt], request_bytes=4096)
    found = held(lab)
    assert sorted(text.rstrip("x") for texts in found.values() for text in texts) == sorted(numbered(0, 400))
    assert [len(found[name]) for name in ("broker-a", "broker-b")] == [200, 200]


@pytest.fixture
def unindexed() -> Iterator[EphemeralBroker]:
    with ephemeral_broker(messageIndexEnable=False) as running:
        yield running


def test_a_broker_that_says_it_keeps_no_index_gets_nothing(
    unindexed: EphemeralBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_fences(unindexed.broker, monkeypatch)
    with pytest.raises(DoubtError, match="keeps no index"):
        run_task(options_for(unindexed), TASK, [bodies(["a"])])
    assert stored_bodies(unindexed) == []


def test_a_broker_that_does_not_find_what_it_acknowledged_gets_no_more(
    unindexed: EphemeralBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_fences(unindexed.broker, monkeypatch, RequestCode.GET_BROKER_CONFIG)
    with pytest.raises(DoubtError, match="has acknowledged a message and does not find it by its key"):
        run_task(options_for(unindexed), TASK, [bodies(numbered(0, 1000))], request_bytes=1024)
    assert 0 < len(stored_bodies(unindexed)) < 20
    run_task(options_for(unindexed, onDoubt="send"), TaskIdentity("q", 4, 1), [bodies(["all the same"])])
    assert "all the same" in stored_bodies(unindexed)


def test_a_broker_that_goes_away_while_it_is_looked_into_gets_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[bool] = []
    caught_up = StreamLedger._index_caught_up

    async def sometimes(ledger: StreamLedger, address: str) -> int:
        outcomes.append(len(outcomes) == 1)  # the first is when the stream is opened
        if outcomes[-1]:
            raise UnavailableError("the connection was closed")
        return await caught_up(ledger, address)

    monkeypatch.setattr(StreamLedger, "_index_caught_up", sometimes)
    with ephemeral_broker() as running:
        without_fences(running.broker, monkeypatch)
        run_task(options_for(running), TASK, [bodies(numbered(0, 500))], request_bytes=2048)
        assert stored_bodies(running) == numbered(0, 500)
    assert outcomes == [False, True, False]


# When a batch was begun


def test_the_checkpoint_says_when_a_batch_was_begun(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000123}\n{"T":{}}')
    (tmp_path / "offsets" / "8").write_text("v1\n")
    for place in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        assert batch_begun_ms(place, 7) == 1_700_000_000_123
    assert [batch_begun_ms(str(tmp_path), 8), batch_begun_ms(str(tmp_path), 9), batch_begun_ms(None, 7)] == [0, 0, 0]
    assert batch_begun_ms("nothing://here", 7) == 0
