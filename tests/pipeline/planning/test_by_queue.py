"""What is said of single queues: ``assign``, times by queue, and a group named by what is read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.jobs.replay.job import default_replay_id
from flaremq.pipeline.model.by_queue import parse_assign, parse_times, times_text
from flaremq.pipeline.model.source import SourceSpec
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.planning.by_topic import for_topic
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.scan import scan
from flaremq.pipeline.sources.open import open_source, source_spec
from tests.pipeline.conftest import FIRST_MS, FilledStore

FIRST, SECOND = QueueRef("orders", "a", 0), QueueRef("orders", "b", 1)


@pytest.mark.parametrize("said", [{"orders": [1]}, {"orders": {"b": [1]}}])
def test_queues_are_named_with_their_broker_or_on_every_one(said: Any) -> None:
    queues = parse_assign(json.dumps(said), what="assign")
    assert (queues.find(FIRST), queues.find(SECOND), queues.topics) == (None, True, ("orders",))


@pytest.mark.parametrize(
    ("said", "times"),
    [
        ({"orders": 5}, (5, 5)),
        ({"orders": {"1": 5}}, (None, 5)),
        ({"orders": {"a": 5}}, (5, None)),
        ({"orders": {"a": 7, "0": 5}}, (5, None)),
        ({"orders": {"b": {"1": 5}, "1": 6, "0": "7"}}, (7, 5)),
        ({"users": 5}, (None, None)),
    ],
)
def test_the_narrower_word_about_a_queue_holds(said: Any, times: tuple[int | None, int | None]) -> None:
    found = parse_times(json.dumps(said), int, what="x")
    assert (found.find(FIRST), found.find(SECOND)) == times
    assert parse_times(times_text(found), int, what="x") == found


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"t": []}', '{"t": ["0"]}', '{"t": [-1]}', '{"t": 1}', '{"t": [true]}']
)
def test_assign_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="assign"):
        parse_assign(text, what="assign")


@pytest.mark.parametrize(
    "text", ["5", "{}", '{"t": []}', '{"t": {"0": null}}', '{"t": "noon"}', '{"t": {"b": {"x": 1}}}']
)
def test_times_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the form"):
        parse_options({"path": "/s", "startingOffsetsByTimestamp": text})


def test_so_long_ago_is_a_moment_once_options_are_parsed() -> None:
    times = parse_options({"path": "/s", "startingOffsetsByTimestamp": '{"orders": {"0": "2h"}}'}).starting_times
    assert times is not None
    assert abs(int(time.time() * 1000) - 7_200_000 - (times.find(FIRST) or 0)) < 60_000


@pytest.fixture
def spans(orders_store: FilledStore) -> Callable[..., dict[int, tuple[int, int]]]:
    def plan(**options: Any) -> dict[int, tuple[int, int]]:
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
        parsed = parse_options(orders_store.options | texts)
        with open_source(source_spec(parsed)) as source:
            return {span.queue.queue_id: (span.start, span.end) for span in scan_spans(source, parsed)}

    return plan


def test_only_the_queues_assigned_are_read(spans: Any, orders_store: FilledStore) -> None:
    assert spans(assign={"orders": [1, 3]}) == {1: (0, 90), 3: (0, 90)}
    found = scan(**orders_store.options, assign={"orders": {"broker-a": [2]}}, columns="queueId").read_all()
    assert set(found.column("queueId").to_pylist()) == {2} and found.num_rows == 90


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"orders": [9]}, "assign names queue 9; topic 'orders' has"),
        ({"orders": [0], "ordres": [0]}, "topic 'ordres' has no queue in .*; did you mean orders"),
    ],
)
def test_a_queue_that_is_not_there_cannot_be_assigned(spans: Any, said: Any, sentence: str) -> None:
    with pytest.raises(NotFoundError, match=sentence):
        spans(assign=said)


def test_each_queue_starts_and_ends_at_its_own_time(spans: Any, orders_store: FilledStore) -> None:
    def offset_at(queue_id: int, seconds: int) -> int:
        rows = [row for row in orders_store.rows if (row["topic"], row["queueId"]) == ("orders", queue_id)]
        return min(row["queueOffset"] for row in rows if row["at"] >= seconds)

    found = spans(
        topic="orders",
        startingOffsetsByTimestamp={"orders": {"0": FIRST_MS + 60_000, "1": FIRST_MS + 120_000}},
        endingOffsetsByTimestamp={"orders": {"broker-a": {"1": FIRST_MS + 300_000}}},
    )
    assert found == {0: (offset_at(0, 60), 90), 1: (offset_at(1, 120), offset_at(1, 300)), 2: (0, 90), 3: (0, 90)}


def test_times_of_a_queue_that_is_not_there_are_an_error(spans: Any) -> None:
    with pytest.raises(
        NotFoundError, match="startingOffsetsByTimestamp names broker 'b'; topic 'orders' is on broker-a"
    ):
        spans(topic="orders", startingOffsetsByTimestamp={"orders": {"b": {"0": 5}}})


def test_a_group_is_named_by_its_prefix_and_what_is_read() -> None:
    def group(**choice: str) -> str:
        return parse_options({"path": "/s", "groupIdPrefix": "bi", **choice}).group

    assert group(topic="orders") == "bi-orders"
    names = {group(), group(topic="a,b"), group(subscribePattern="a.*"), group(assign='{"orders": [0]}')}
    assert len(names) == 4 and all(name.startswith("bi-") for name in names)
    assert group(topic="a,b") == group(topic="b, a")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topic": "a", "assign": '{"a": [0]}'}, "both topic and assign"),
        ({"consumerGroup": "g", "groupIdPrefix": "p"}, "both consumerGroup and groupIdPrefix"),
        ({"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"a": 5}'}, "both startingOffsets and"),
        ({"kafka.bootstrap.servers": "h:9092"}, "one of Kafka's: name servers are given as nameServer"),
        ({"includeHeaders": "true"}, "headers are the column properties"),
    ],
)
def test_what_contradicts_or_belongs_to_kafka_is_told(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        parse_options({"path": "/s"} | given)


def test_options_of_one_of_several_topics_say_what_was_said_of_it() -> None:
    said = {"a": {"b": {"0": 5}}, "c": {"b": {"0": 7}}}
    options = parse_options({"path": "/s", "topic": "a,c,d", "startingOffsets": json.dumps(said)})
    found = {topic: for_topic(options, topic) for topic in ("a", "c", "d")}
    assert [each.topic for each in found.values()] == ["a", "c", "d"]
    assert json.loads(found["c"].starting_offsets) == {"c": said["c"]} and found["d"].starting_offsets == ""
    options = parse_options({"path": "/s", "assign": '{"a": [0], "c": [1]}', "startingOffsets": "earliest"})
    assert for_topic(options, "c").selector.names == ("c",) and for_topic(options, "c").starting_offsets == "earliest"
    assert options.names_topics and not parse_options({"path": "/s"}).names_topics


def test_replays_of_other_queues_or_from_other_times_are_other_replays() -> None:
    def name(**choice: Any) -> str:
        options = parse_options({"path": "/s"} | {key: json.dumps(value) for key, value in choice.items()})
        return default_replay_id(options, SourceSpec(), None, "/t", None, keep_queues=False)

    names = [
        name(),
        name(assign={"a": [0]}),
        name(assign={"a": [1]}),
        name(startingOffsetsByTimestamp={"a": 5}),
        name(endingOffsetsByTimestamp={"a": 5}),
    ]
    assert len(set(names)) == len(names) and name(assign={"a": [1]}) == names[2]


def test_a_pause_may_have_a_unit() -> None:
    assert parse_options({"path": "/s", "maxTriggerDelay": "15m"}).max_trigger_delay == 900_000
    with pytest.raises(InvalidArgumentError, match="a number with a unit"):
        parse_options({"path": "/s", "maxTriggerDelay": "soon"})
