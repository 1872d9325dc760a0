"""Stores written by RocketMQ as a table: the rows Java read back, the extents Java serves, the times Java finds."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from flaremq.message.batch import inner_messages
from flaremq.message.message_ext import MessageExt
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.sources.store import StoreSource
from tests.support.golden import GoldenStore, golden_names, open_golden
from tests.support.store_rows import (
    BROKER,
    EVERYTHING,
    UNIT_COLUMNS,
    in_queue_order,
    read_rows,
    row_of,
    source_of,
    spans_of,
)


class Opened:
    def __init__(self, golden: GoldenStore) -> None:
        self.golden = golden
        self.source: StoreSource = source_of(golden.root)

    def queues(self) -> Iterator[tuple[QueueRef, dict[str, Any]]]:
        for name, queue in self.golden.manifest["queues"].items():
            topic, queue_id = name.rsplit("@", 1)
            if queue["max"] > 0:
                yield QueueRef(topic, BROKER, int(queue_id)), queue

    def expected_rows(self) -> list[dict[str, Any]]:
        """The rows of every unit Java lists, made of the records themselves."""
        records = {message["physicalOffset"]: record for message, record in self.golden.records()}
        rows = []
        for queue, expected in sorted(self.queues()):
            for unit in expected["units"]:
                message = MessageExt(records[unit[1]])
                if not message.is_inner_batch:
                    rows.append(row_of(message))
                    continue
                for inner in inner_messages(message):
                    properties = {"keys": inner.properties.get("KEYS"), "tags": inner.tags, "flag": inner.flag}
                    rows.append(row_of(message) | properties | {"properties": inner.properties, "body": inner.body})
                    rows[-1] |= {"queueOffset": inner.queue_offset, "transactionId": None}
            assert all(row["queueId"] == queue.queue_id for row in rows[-len(expected["units"]) :])
        return rows


@pytest.fixture(scope="module", params=golden_names())
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    opened = Opened(open_golden(request.param, tmp_path_factory.mktemp("store")))
    yield opened
    opened.source.close()


def test_extents_are_the_ranges_java_serves(opened: Opened) -> None:
    found = {extent.queue: (extent.min_offset, extent.max_offset) for extent in opened.source.extents(EVERYTHING)}
    assert found == {queue: (expected["min"], expected["max"]) for queue, expected in opened.queues()}


def test_rows_are_the_messages_of_the_manifest(opened: Opened) -> None:
    rows = in_queue_order(read_rows(opened.source, spans_of(opened.source)))
    assert rows == opened.expected_rows()
    by_place = {message["physicalOffset"]: message for message in opened.golden.messages}
    for row in rows:
        expected = by_place[row["physicalOffset"]]
        assert (row["msgId"], row["storeSize"], row["bornHost"], row["storeHost"]) == (
            expected["msgId"],
            expected["size"],
            expected["bornHost"],
            expected["storeHost"],
        )
        if not row["sysFlag"] & 0x80:
            sha = expected.get("inflatedSha256", expected["bodySha256"])
            assert hashlib.sha256(row["body"]).hexdigest() == sha


def test_unit_columns_alone_give_the_same_rows(opened: Opened) -> None:
    spans = spans_of(opened.source)
    full = in_queue_order(read_rows(opened.source, spans))
    narrow = in_queue_order(read_rows(opened.source, spans, UNIT_COLUMNS))
    assert narrow == [{name: row[name] for name in UNIT_COLUMNS} for row in full]


def test_tags_find_what_a_look_at_every_row_finds(opened: Opened) -> None:
    spans = spans_of(opened.source)
    rows = read_rows(opened.source, spans, ["queueOffset", "tags", "topic", "queueId"])
    for tag in {row["tags"] for row in rows} - {None}:
        found = read_rows(opened.source, spans, ["queueOffset", "tags", "topic", "queueId"], tags=[tag])
        assert found == [row for row in rows if row["tags"] == tag]


def test_offsets_by_time_are_the_first_stored_at_or_after(opened: Opened) -> None:
    times: dict[QueueRef, list[tuple[int, int]]] = defaultdict(list)
    for row in read_rows(opened.source, spans_of(opened.source), ["topic", "queueId", "queueOffset", "storeTimestamp"]):
        stored = round(row["storeTimestamp"].timestamp() * 1000)
        times[QueueRef(row["topic"], BROKER, row["queueId"])].append((row["queueOffset"], stored))
    for queue, expected in opened.queues():
        some = times[queue][:: len(times[queue]) // 20 + 1]
        for timestamp in {0, 2**62, *(time + step for _, time in some for step in (-1, 0, 1))}:
            first = min((offset for offset, time in times[queue] if time >= timestamp), default=expected["max"])
            assert opened.source.offset_by_time(queue, timestamp) == first, (queue, timestamp)


def test_keys_find_what_a_look_at_every_row_finds(opened: Opened) -> None:
    spans = spans_of(opened.source)
    rows = read_rows(opened.source, spans, ["topic", "physicalOffset", "queueOffset", "keys", "properties"])
    by_key: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for row in rows:
        for key in {*(row["keys"] or "").split(" "), row["properties"].get("UNIQ_KEY", "")} - {""}:
            by_key[key].add((row["physicalOffset"], row["queueOffset"]))
    wanted = [query["key"] for query in opened.golden.manifest["indexQueries"]] + sorted(by_key)[
        :: len(by_key) // 15 + 1
    ]
    for key in dict.fromkeys(wanted):
        found = read_rows(opened.source, spans, ["physicalOffset", "queueOffset", "properties"], keys=[key])
        places = [(row["physicalOffset"], row["queueOffset"]) for row in found]
        assert sorted(places) == sorted(by_key[key]), key


def test_profiles_tell_the_bytes_of_each_span(opened: Opened) -> None:
    spans = spans_of(opened.source)
    sizes: dict[QueueRef, dict[int, int]] = defaultdict(dict)
    for row in read_rows(opened.source, spans, UNIT_COLUMNS):
        sizes[QueueRef(row["topic"], BROKER, row["queueId"])][row["physicalOffset"]] = row["storeSize"]
    for span, profile in zip(spans, opened.source.profiles(spans), strict=True):
        assert profile.span == span
        assert profile.size_bytes == sum(sizes[span.queue].values())
        assert (profile.points[0].offset, profile.points[0].size_bytes) == (span.start, 0)
        assert [point.offset for point in profile.points] == sorted(point.offset for point in profile.points)
        assert profile.points[-1].offset == span.end


def test_pieces_of_any_size_tile_the_queues(opened: Opened) -> None:
    spans = spans_of(opened.source)
    whole = in_queue_order(read_rows(opened.source, spans, ["topic", "queueId", "queueOffset", "msgId"]))
    pieces = [
        Span(span.queue, start, min(start + step, span.end))
        for number, span in enumerate(spans)
        for step in [number % 5 + 1]
        for start in range(span.start, span.end, step)
    ]
    parts = [read_rows(opened.source, pieces[at::3], ["topic", "queueId", "queueOffset", "msgId"]) for at in range(3)]
    joined = sorted(
        (row for part in parts for row in part), key=lambda row: (row["topic"], row["queueId"], row["queueOffset"])
    )
    assert joined == whole
