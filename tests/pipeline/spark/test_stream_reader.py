"""The streaming reader against a source in memory: where batches start and end, what is cut, what is lost."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.spark import stream_reader
from flaremq.pipeline.spark.stream_reader import StreamReader, make_stream_reader
from tests.support.fake_source import FakeSource, fake_queues

SCHEMA = schema_of(["topic", "body"])
Nested = dict[str, Any]


class Lab:
    """A reader, the source that it opens, and how often it did."""

    def __init__(self, source: FakeSource, **options: str) -> None:
        self.source = source
        self.opened = 0
        self.reader = make_stream_reader(parse_options({"nameServer": "h:1", **options}), SCHEMA)

    def open(self, spec: object) -> FakeSource:
        self.opened += 1
        return self.source

    def batch(self, start: Nested, end: Nested) -> dict[tuple[str, int], tuple[int, int]]:
        pieces = [partition.value for partition in self.reader.partitions(start, end)]
        return {(s.queue.topic, s.queue.queue_id): (s.start, s.end) for piece in pieces for s in piece.spans}

    def grow(self, topic: str, queue_id: int, count: int, *, low: int = 0) -> None:
        self.source.queues[QueueRef(topic, "b", queue_id)] = (low, count)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(sizes: dict[str, list[int]], **options: str) -> Lab:
        made = Lab(FakeSource(fake_queues(sizes)), **options)
        monkeypatch.setattr(stream_reader, "open_source", made.open)
        return made

    return make


def nested(**topics: list[int]) -> Nested:
    return {topic: {"b": {str(at): n for at, n in enumerate(ends)}} for topic, ends in topics.items()}


def rows(count: int) -> Any:
    limits = pytest.importorskip("pyspark.sql.streaming.datasource")
    return limits.ReadMaxRows(count)


def everything() -> Any:
    return pytest.importorskip("pyspark.sql.streaming.datasource").ReadAllAvailable()


def test_a_stream_starts_at_the_latest_offset_unless_told_otherwise(lab: Any) -> None:
    assert lab({"t": [3, 5]}).reader.initialOffset() == nested(t=[3, 5])
    assert lab({"t": [3, 5]}, startingOffsets="earliest").reader.initialOffset() == nested(t=[0, 0])
    assert lab({"t": [3, 5]}, startingTimestamp="4000").reader.initialOffset() == nested(t=[3, 4])


def test_a_batch_reaches_from_its_start_to_what_is_held(lab: Any) -> None:
    made = lab({"t": [3, 5]})
    end = made.reader.latestOffset(nested(t=[1, 5]), everything())
    assert end == nested(t=[3, 5])
    assert made.batch(nested(t=[1, 5]), end) == {("t", 0): (1, 3)}


def test_nothing_new_is_an_empty_batch(lab: Any) -> None:
    made = lab({"t": [3]})
    assert made.reader.latestOffset(nested(t=[3]), everything()) == nested(t=[3])
    assert made.reader.partitions(nested(t=[3]), nested(t=[3])) == []


def test_a_limit_is_shared_out_in_proportion(lab: Any) -> None:
    made = lab({"t": [1_000, 3_000]})
    assert made.reader.latestOffset(nested(t=[0, 0]), rows(100)) == nested(t=[25, 75])


def test_the_engine_may_ask_for_all_in_spite_of_the_option(lab: Any) -> None:
    everything()
    made = lab({"t": [1_000]}, maxOffsetsPerTrigger="10")
    assert made.reader.getDefaultReadLimit() == rows(10)
    assert made.reader.latestOffset(nested(t=[0]), everything()) == nested(t=[1_000])


def test_without_admission_control_the_reader_limits_itself(lab: Any) -> None:
    made = lab({"t": [25]}, maxOffsetsPerTrigger="10", startingOffsets="earliest")
    start = made.reader.initialOffset()
    for expected in (10, 20, 25, 25):
        end = made.reader.latestOffset()
        assert end == nested(t=[expected])
        made.reader.partitions(start, end)
        start = end


def test_without_admission_control_a_restart_goes_on_where_the_checkpoint_is(lab: Any) -> None:
    made = lab({"t": [25]}, maxOffsetsPerTrigger="10")
    made.reader.partitions(nested(t=[7]), nested(t=[7]))
    assert made.reader.latestOffset() == nested(t=[17])


def test_a_limit_in_bytes_ends_a_batch(lab: Any) -> None:
    everything()
    made = lab({"t": [1_000]}, maxBytesPerTrigger="1000")
    assert made.reader.latestOffset(nested(t=[0]), made.reader.getDefaultReadLimit()) == nested(t=[10])
    assert made.reader.latestOffset(nested(t=[0]), rows(7)) == nested(t=[7])
    assert made.reader.latestOffset(nested(t=[0]), everything()) == nested(t=[1_000])


def test_a_small_batch_waits_for_more(lab: Any) -> None:
    made = lab({"t": [5]}, minOffsetsPerTrigger="10")
    assert made.reader.latestOffset(nested(t=[0]), everything()) == nested(t=[0])
    made.grow("t", 0, 10)
    assert made.reader.latestOffset(nested(t=[0]), everything()) == nested(t=[10])
    impatient = lab({"t": [5]}, minOffsetsPerTrigger="10", maxTriggerDelay="0")
    assert impatient.reader.latestOffset(nested(t=[0]), everything()) == nested(t=[5])


def test_available_now_ends_where_the_log_ended_at_its_start(lab: Any) -> None:
    everything()
    made = lab({"t": [5]})
    made.reader.prepareForTriggerAvailableNow()
    made.grow("t", 0, 50)
    made.grow("t", 1, 50)
    end = made.reader.latestOffset(nested(t=[2]), rows(100))
    assert end == nested(t=[5, 0])
    assert made.reader.latestOffset(end, rows(100)) == end
    assert made.batch(nested(t=[2]), end) == {("t", 0): (2, 5)}


def test_a_new_queue_is_read_from_its_first_message(lab: Any) -> None:
    made = lab({"t": [5]})
    made.grow("t", 1, 8, low=2)
    end = made.reader.latestOffset(nested(t=[5]), everything())
    assert end == nested(t=[5, 8])
    assert made.batch(nested(t=[5]), end) == {("t", 1): (2, 8)}


def test_a_queue_that_vanished_is_an_error_or_a_warning(lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    start = nested(t=[1, 4], gone=[9])
    with pytest.raises(UnavailableError, match=r"queue gone/b/0 is gone.*offset 9.*failOnDataLoss=false"):
        lab({"t": [3, 5]}).reader.latestOffset(start, everything())
    made = lab({"t": [3, 5]}, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        end = made.reader.latestOffset(start, everything())
        made.reader.latestOffset(start, everything())
    assert end == nested(t=[3, 5], gone=[9]) | {"gone": nested(gone=[9])["gone"]}
    assert len(caplog.records) == 1
    assert made.batch(start, end) == {("t", 0): (1, 3), ("t", 1): (4, 5)}


def test_messages_that_retention_took_are_an_error_or_a_warning(lab: Any) -> None:
    made = lab({"t": [9]})
    made.grow("t", 0, 9, low=6)
    with pytest.raises(UnavailableError, match="holds offsets 6 to 9, but 2 to 9 is wanted"):
        made.batch(nested(t=[2]), nested(t=[9]))
    made = lab({"t": [9]}, failOnDataLoss="false")
    made.grow("t", 0, 9, low=6)
    assert made.batch(nested(t=[2]), nested(t=[9])) == {("t", 0): (6, 9)}


def test_a_log_that_became_shorter_is_an_error_or_a_warning(lab: Any) -> None:
    with pytest.raises(UnavailableError, match="ends at 3, before 8"):
        lab({"t": [3]}).reader.latestOffset(nested(t=[8]), everything())
    made = lab({"t": [3]}, failOnDataLoss="false")
    assert made.reader.latestOffset(nested(t=[8]), everything()) == nested(t=[3])
    assert made.batch(nested(t=[8]), nested(t=[3])) == {}


def test_the_source_stays_open_between_calls_and_is_opened_again_after_a_failure(lab: Any) -> None:
    made = lab({"t": [3]})
    for _ in range(3):
        made.reader.latestOffset(nested(t=[0]), everything())
    assert made.opened == 1
    made.source.broken.append(UnavailableError("the broker went away"))
    assert made.reader.latestOffset(nested(t=[0]), everything()) == nested(t=[3])
    assert (made.opened, made.source.closed) == (2, 1)
    made.reader.stop()
    assert made.source.closed == 2


def test_cutting_a_batch_does_not_look_again(lab: Any) -> None:
    made = lab({"t": [3]})
    end = made.reader.latestOffset(nested(t=[0]), everything())
    made.batch(nested(t=[0]), end)
    assert len(made.source.called("extents")) == 1
    assert made.reader.reportLatestOffset() == nested(t=[3])


def test_a_pickled_reader_holds_no_source(lab: Any) -> None:
    made = lab({"t": [3]})
    made.reader.latestOffset(nested(t=[0]), everything())
    copy: StreamReader = pickle.loads(pickle.dumps(made.reader))
    assert copy.request == made.reader.request
    assert copy.options == made.reader.options


@pytest.mark.parametrize("option", [{"endingOffsets": "latest"}, {"endingTimestamp": "5"}, {"keys": "k"}])
def test_options_of_batches_are_refused(lab: Any, option: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="for batches"):
        lab({"t": [3]}, **option)
