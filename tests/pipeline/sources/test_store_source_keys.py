"""Messages by key: through the index where it reaches, through the queues where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from flaremq.pipeline.model.spans import Span
from tests.support.store_lab import StoreLab
from tests.support.store_rows import all_rows, read_rows, source_of, spans_of


@pytest.fixture
def keyed(lab: StoreLab) -> StoreLab:
    lab.open()
    for number in range(120):
        key = ("Aa", "BB", f"k{number}", "hot")[number % 4]
        lab.put(b"%d" % number, keys=[key, f"n{number}"], queue_id=number % 2, topic="ab"[number % 3 == 0])
    lab.put(b"unique", properties={"UNIQ_KEY": "U1"}, topic="a")
    lab.store.tick()
    return lab


def by_key(rows: list[dict[str, Any]], key: str) -> list[int]:
    return sorted(
        row["physicalOffset"]
        for row in rows
        if key in (row["keys"] or "").split(" ") or row["properties"].get("UNIQ_KEY") == key
    )


@pytest.mark.parametrize("index", ["whole", "missing", "first lost", "middle lost", "last lost", "geometry unknown"])
def test_keys_are_found_whatever_is_left_of_the_index(
    keyed: StoreLab, index: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = all_rows(keyed)
    keyed.close()
    keyed.broken_on_purpose = index != "whole"
    files = sorted((keyed.root / "index").iterdir())
    assert len(files) > 2
    lost = {"missing": files, "first lost": files[:1], "middle lost": files[1:2], "last lost": files[-1:]}
    for path in lost.get(index, []):
        path.unlink()
    geometry = {"maxHashSlotNum": "77", "maxIndexNum": "99"} if index == "geometry unknown" else {}
    with source_of(keyed.root, **geometry) as source:
        spans = spans_of(source)
        for key in ("Aa", "BB", "hot", "k2", "n7", "U1", "nobody"):
            found = read_rows(source, spans, ["physicalOffset", "body"], keys=[key])
            assert sorted(row["physicalOffset"] for row in found) == by_key(rows, key), (key, index)
        several = read_rows(source, spans, ["physicalOffset", "body"], keys=["Aa", "n0", "k2", "n2"])
        wanted = {place for key in ("Aa", "n0", "k2", "n2") for place in by_key(rows, key)}
        assert sorted(row["physicalOffset"] for row in several) == sorted(wanted)
    assert ("no key index" in caplog.text) == (index in ("missing", "geometry unknown"))


def test_keys_are_found_within_the_spans_only(keyed: StoreLab) -> None:
    rows = all_rows(keyed)
    with source_of(keyed.root) as source:
        spans = [Span(span.queue, span.start + 3, span.end - 3) for span in spans_of(source)]
        found = read_rows(source, spans, ["queueOffset", "topic", "queueId", "body"], keys=["hot"], tags=[])
    inside = {(span.queue.topic, span.queue.queue_id): range(span.start, span.end) for span in spans}
    expected = [
        row["body"]
        for row in rows
        if "hot" in (row["keys"] or "").split(" ")
        if row["queueOffset"] in inside[row["topic"], row["queueId"]]
    ]
    assert sorted(row["body"] for row in found) == sorted(expected)


def test_keys_of_records_not_dispatched_yet_are_found(keyed: StoreLab) -> None:
    keyed.put(b"late", keys="late", topic="a")
    keyed.store.flush()
    keyed.kill()
    with source_of(keyed.root) as source:
        found = read_rows(source, spans_of(source), ["body"], keys=["late"])
    assert [row["body"] for row in found] == [b"late"]
