"""A store directory as a source: the same rows as its consumers get, in the columns and pieces asked for."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.message.message import Message
from flaremq.pipeline.model.columns import NAMES, schema_of
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import Span
from flaremq.pipeline.sources.store import StoreSource
from flaremq.storage.arrow import windows as scan_windows
from tests.support.store_corpus import append_foreign, write_corpus
from tests.support.store_lab import TOPIC, StoreLab
from tests.support.store_rows import all_rows, queue, read_rows, rows_by_get, source_of, spans_of


def test_rows_are_those_consumers_get(lab: StoreLab) -> None:
    lab.odd_text = True
    lab.open()
    write_corpus(lab, 8)
    append_foreign(lab.store, b"TAGS\x01\xff\xfe\x02KEYS\x01k", lab.clock.now_ms())
    lab.store.tick()
    expected = rows_by_get(lab.store)
    assert all_rows(lab) == expected  # while the store is open
    lab.close()
    assert all_rows(lab) == expected


@pytest.mark.parametrize(
    "columns", [["body"], ["tags", "queueOffset"], ["storeTimestamp"], ["transactionId"], NAMES[::-1]]
)
def test_columns_come_as_asked_for_and_in_their_order(lab: StoreLab, columns: list[str]) -> None:
    lab.open()
    write_corpus(lab, 3)
    lab.store.tick()
    with source_of(lab.root) as source:
        spans = spans_of(source)
        full = read_rows(source, spans)
        assert read_rows(source, spans, columns) == [{name: row[name] for name in columns} for row in full]


def test_schema_decides_types_and_nullability(lab: StoreLab) -> None:
    lab.open()
    lab.put(b"text", tags="T", properties={"a": "b"})
    lab.put(b"\xff\xfe")
    lab.store.tick()
    schema = pa.schema(
        [
            pa.field("body", pa.string(), nullable=False),
            pa.field("queueId", pa.int64()),
            pa.field("storeTimestamp", pa.timestamp("ms", tz="UTC")),
            pa.field("tags", pa.large_string()),
            pa.field("properties", pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))),
        ]
    )
    with source_of(lab.root) as source:
        (batch,) = source.read(spans_of(source), ReadRequest(schema))
    assert batch.schema.equals(schema)
    assert batch.column("body").to_pylist() == ["text", "\ufffd\ufffd"]
    assert batch.column("tags").to_pylist() == ["T", None]


def test_same_rows_from_windows_of_any_size(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open()
    write_corpus(lab, 5)
    lab.put(b"z" * 9000, keys="large")
    lab.put(b"y" * 12000, topic="bills", properties={"a": "b"}, tags="T")
    lab.store.tick()
    for columns in (None, ["queueOffset", "topic", "queueId", "properties", "storeHost"]):
        expected = all_rows(lab, columns)
        for window, gap, rows in ((1, 0, 1), (700, 50, 3), (5000, 100_000, 7)):
            monkeypatch.setattr(scan_windows, "_WINDOW_BYTES", window)
            monkeypatch.setattr(scan_windows, "_GAP_BYTES", gap)
            monkeypatch.setattr(scan_windows, "_WINDOW_ROWS", rows)
            monkeypatch.setattr(scan_windows, "_LARGE_BYTES", window + 200)
            assert all_rows(lab, columns) == expected
        monkeypatch.undo()


def test_tags_with_equal_hashes_are_told_apart(lab: StoreLab) -> None:
    lab.open()
    for tag in ("Aa", "BB", "Aa", None, "C"):
        lab.put(tag.encode() if tag else b"none", tags=tag)
    lab.store.tick()
    assert [row["body"] for row in all_rows(lab, ["topic", "queueId", "body"], tags=["Aa"])] == [b"Aa", b"Aa"]
    assert [row["body"] for row in all_rows(lab, ["topic", "queueId", "body"], tags=["BB", "C"])] == [b"BB", b"C"]
    assert all_rows(lab, ["topic", "queueId"], tags=["other"]) == []


def test_random_pieces_of_random_stores_tile(lab: StoreLab) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    lab.open()
    for _ in range(300):
        lab.put(
            chance.randbytes(chance.choice((0, 3, 40, 900))), topic=chance.choice("abc"), queue_id=chance.randrange(3)
        )
    lab.store.tick()
    with source_of(lab.root) as source:
        whole = read_rows(source, spans_of(source), ["topic", "queueId", "queueOffset", "body"])
        pieces = []
        for span in spans_of(source):
            cuts = sorted({span.start, span.end, *(chance.randint(span.start, span.end) for _ in range(3))})
            pieces += [Span(span.queue, low, high) for low, high in pairwise(cuts)]
        chance.shuffle(pieces)
        found = [
            row
            for at in range(0, len(pieces), 4)
            for row in read_rows(source, pieces[at : at + 4], ["topic", "queueId", "queueOffset", "body"])
        ]
    order = [(row["topic"], row["queueId"], row["queueOffset"]) for row in found]
    assert len(set(order)) == len(order), f"seed {seed}"
    assert sorted(found, key=str) == sorted(whole, key=str), f"seed {seed}"


def test_rows_come_in_the_order_of_the_log_over_all_queues(lab: StoreLab) -> None:
    lab.open()
    for number in range(60):
        lab.put(b"x" * 100, queue_id=number % 4, topic="ab"[number % 2])
    lab.store.tick()
    with source_of(lab.root) as source:
        places = [row["physicalOffset"] for row in read_rows(source, spans_of(source), ["physicalOffset", "msgId"])]
    assert places == sorted(places) and len(places) == 60


def test_clear_errors_for_paths_that_are_no_stores(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"cannot see .*nowhere; every executor needs the store at the same path"):
        source_of(tmp_path / "nowhere")
    with pytest.raises(InvalidArgumentError, match="is not a store"):
        source_of(tmp_path)
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(InvalidArgumentError, match="two stores are named 'a'"):
        StoreSource(SourceSpec(paths=(("a", str(tmp_path)), ("a", str(tmp_path)))))


def test_topics_by_name_by_pattern_and_all(lab: StoreLab) -> None:
    lab.open()
    for topic in ("ab", "abc", "%RETRY%g", "SCHEDULE_TOPIC_XXXX"):
        lab.put(topic=topic)
    lab.store.tick()
    with source_of(lab.root) as source:

        def topics(selector: TopicSelector) -> list[str]:
            return [extent.queue.topic for extent in source.extents(selector)]

        assert topics(TopicSelector()) == ["%RETRY%g", "ab", "abc"]
        assert topics(TopicSelector(("abc",))) == ["abc"]
        assert topics(TopicSelector(pattern="ab.?")) == ["ab", "abc"]
        with pytest.raises(NotFoundError, match="topic 'nope' has no queue"):
            source.extents(TopicSelector(("ab", "nope")))
        with pytest.raises(InvalidArgumentError, match="no regular expression"):
            source.extents(TopicSelector(pattern="("))


def test_several_stores_are_one_source(tmp_path: Path) -> None:
    labs = [StoreLab(tmp_path / name) for name in ("one", "two")]
    for number, bench in enumerate(labs):
        bench.open()
        bench.put_many(3 + number)
        bench.store.tick()
    with StoreSource(SourceSpec(paths=tuple((bench.root.name, str(bench.root)) for bench in labs))) as source:
        spans = spans_of(source)
        assert [(span.queue.broker, span.end) for span in spans] == [("one", 3), ("two", 4)]
        rows = read_rows(source, spans, ["brokerName", "queueOffset", "body"])
        assert [(row["brokerName"], row["queueOffset"]) for row in rows] == [
            *(("one", number) for number in range(3)),
            *(("two", number) for number in range(4)),
        ]
        assert [profile.points[-1].offset for profile in source.profiles(spans)] == [3, 4]
    for bench in labs:
        bench.finish()


def test_long_spans_are_sampled_and_come_close(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from flaremq.pipeline.sources import store_profiles

    lab.open(mapped_file_size_commit_log=1 << 20)
    lab.store.put_batch([Message(TOPIC, b"x" * (number % 50)) for number in range(2000)], 0)
    lab.store.tick()
    with source_of(lab.root) as source:
        spans = [Span(queue(TOPIC), 0, 2000)]
        (few,) = source.profiles(spans)
        monkeypatch.setattr(store_profiles, "_POINT_BYTES", 1)
        (exact,) = source.profiles(spans)
        monkeypatch.setattr(store_profiles, "_WHOLE_UNITS", 100)
        monkeypatch.setattr(store_profiles, "_POINTS", 32)
        (sampled,) = source.profiles(spans)
    assert len(sampled.points) == 33 and len(exact.points) > 200
    assert few.size_bytes == exact.size_bytes and len(few.points) < 4
    assert abs(sampled.size_bytes - exact.size_bytes) < 0.2 * exact.size_bytes
    assert [point.physical_offset for point in sampled.points] == sorted(p.physical_offset for p in sampled.points)


def test_body_schema_alone_needs_no_other_column(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(3)
    lab.store.tick()
    with source_of(lab.root) as source:
        batches = list(source.read(spans_of(source), ReadRequest(schema_of(["body"]))))
    assert [batch.num_rows for batch in batches] == [3]
