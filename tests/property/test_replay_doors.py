"""Hostile messages of a store replayed into another one and over the wire: carried over, or refused by name.

The source holds whatever a store takes, raw properties and every flag included. A message that cannot be sent on is
refused alone, named by its place, before anything is written; one with an empty body is passed over and counted. All
others arrive with the same body, tags, keys and properties, once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError
from flaremq.message.properties import parse_properties
from flaremq.message.topics import is_system_topic
from flaremq.pipeline.jobs.replay.job import ReplayResult, checked_target, finish_replay, plan_replay, result_of
from flaremq.pipeline.jobs.replay.rows import SCHEMA
from flaremq.pipeline.jobs.replay.task import ReplayTask, replay_from
from flaremq.pipeline.model.source import ReadRequest, Source
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.staging import STAGING
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.testing import ephemeral_broker
from tests.support.hostile_messages import BORN, Hostile
from tests.support.hostile_rows import Row
from tests.support.stored_rows import KINDS, check_chunks, check_stored

TARGET = "copies"
NAME = "hostile"


class Chosen:
    """A source of which only some messages are read."""

    def __init__(self, inner: Source, origins: set[str]) -> None:
        self._inner = inner
        self._origins = origins

    def read(self, spans: Any, request: Any) -> Iterator[pa.RecordBatch]:
        for batch in self._inner.read(spans, request):
            yield batch.filter(pa.array([origin in self._origins for origin in origins_of(batch)], pa.bool_()))


def origins_of(batch: pa.RecordBatch) -> list[str]:
    columns = [batch.column(name).to_pylist() for name in ("topic", "brokerName", "queueId", "queueOffset")]
    return [f"{topic}/{broker}/{queue}/{offset}" for topic, broker, queue, offset in zip(*columns, strict=True)]


def fill(root: Path, kind: dict[str, str], seed: int, count: int) -> dict[str, Row]:
    """A store of hostile messages; what each that a consumer sees should become, by its place."""
    expected = {}
    options = StoreOptions.from_properties(kind)
    with MessageStore.open(root, options, clock=ManualClock(BORN), threads=False) as store:
        host = store._writer.store_host
        for run in Hostile(seed, options, odd_bytes=True).runs(count):
            for item in run:
                if item.properties is None or not (result := store.put_form(item.form(host))).ok:
                    continue
                if item.sys_flag & 0x4 or is_system_topic(item.topic):
                    continue  # half messages are in no queue; RocketMQ's own topics are read by name only
                seen = {name.encode(): text.encode() for name, text in parse_properties(item.properties).items()}
                origin = f"{item.topic}/b/{item.queue_id}/{result.queue_offset}"
                seen |= {b"REPLAY_ID": NAME.encode(), b"REPLAY_ORIGIN": origin.encode()}
                tags, keys = seen.get(b"TAGS"), seen.get(b"KEYS")
                expected[origin] = Row(TARGET.encode(), item.body, tags, keys, seen, None, None)
    return expected


def name_messages(source: Source, tasks: list[ReplayTask], expected: dict[str, Row]) -> None:
    """Each message says what id it had; this also finds out that all of them are read."""
    found = 0
    for task in tasks:
        for batch in source.read(list(task.piece.spans), ReadRequest(SCHEMA)):
            for origin, message_id in zip(origins_of(batch), batch.column("msgId").to_pylist(), strict=True):
                expected[origin].properties[b"REPLAY_MSG_ID"] = message_id.encode()
                found += 1
    assert found == len(expected)


def run(source: Source, tasks: list[ReplayTask], origins: set[str], sink: SinkOptions) -> ReplayResult:
    """A replay of some messages without Spark."""
    chosen: Any = Chosen(source, origins)
    reports = [replay_from(chosen, replace(task, sink=sink)) for task in tasks]
    finish_replay(sink, NAME, reports)
    return result_of(NAME, tasks, reports)


def check_chunk(root: Path, name: str, seed: int, count: int) -> None:
    kind = KINDS[name]
    os.makedirs(root)
    expected = fill(root / "source", kind, seed, count)
    parsed = parse_options({"path": str(root / "source"), "brokerName": "b"})
    given = {"topic": TARGET, "reservedProperties": "drop", "writeId": NAME}
    to_store = checked_target(parse_sink_options(given | kind | {"path": str(root / "target")}))
    good, empty = {}, set()
    with open_source(source_spec(parsed)) as source:
        tasks = plan_replay(parsed, source_spec(parsed), scan_spans(source, parsed), to_store, NAME, keep_queues=False)
        name_messages(source, tasks, expected)
        for origin, row in expected.items():
            words = row.refusals(to_store.max_message_size, drops_reserved=True)
            if not row.body:
                empty.add(origin)
            elif not words:
                good[origin] = row
            else:
                mine = [task for task in tasks if origin.startswith(f"{task.queue.topic}/b/{task.queue.queue_id}/")]
                with pytest.raises(InvalidArgumentError) as caught:
                    run(source, mine, {origin}, to_store)
                    raise AssertionError(f"sent in spite of {words}: {row!r}"[:2000])
                assert f"message {origin};" in str(caught.value)
                assert any(word in str(caught.value) for word in words), f"{caught.value}: {words}"
        assert len(good) > count // 2 and not (root / "target" / STAGING).exists()
        for sent in (len(good), 0) if "narrow" in name else (len(good),):  # a look-up by key reads much of a file
            result = run(source, tasks, good.keys() | empty, to_store)
            assert (result.rows, result.sent, result.skipped, result.missing) == (len(good), sent, len(empty), 0)
        check_stored(root / "target", kind, good, key_name="REPLAY_ORIGIN")
        settings: dict[str, object] = {**kind, "flushDiskType": "ASYNC_FLUSH"}
        settings.pop("brokerIP1", None)
        with ephemeral_broker(clock=ManualClock(), path=str(root / "broker"), **settings) as broker:
            sizes = {"maxMessageSize": str(to_store.max_message_size), "requestBytes": str(to_store.request_bytes)}
            to_broker = parse_sink_options(given | sizes | {"nameServer": broker.name_server, "retryTimeoutMs": "0"})
            result = run(source, tasks, set(good), to_broker)
            assert (result.rows, result.sent, result.missing) == (len(good), len(good), 0)
    check_stored(root / "broker", kind, good, key_name="REPLAY_ORIGIN")


@pytest.mark.slow
def test_messages_are_carried_over_or_refused_by_name(tmp_path: Path) -> None:
    check_chunks(check_chunk, tmp_path, 20261118, 500, len(KINDS))


@pytest.mark.soak
def test_messages_are_carried_over_or_refused_by_name_for_many(tmp_path: Path) -> None:
    check_chunks(check_chunk, tmp_path, secrets.randbits(32), 5_000, 20)
