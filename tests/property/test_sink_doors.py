"""Hostile messages as rows of the Spark sink, into a closed store and over the wire.

Every row is refused alone, with its number and what is wrong, exactly where docs/sink.md says so. The others are
written as tasks write them and must be there: in queues and index, by get and by scan, with the same content, sound by
the verifier, after a clean close and after a kill.
"""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError
from flaremq.message.write_stream import stem_of, unique_key
from flaremq.pipeline.sink import staging
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.rows import RowRules
from flaremq.pipeline.sink.store import check_queue, check_store, take_in
from flaremq.pipeline.sink.task import LaneKey, SinkTask, TaskIdentity
from flaremq.pipeline.sink.wire import WireTarget
from flaremq.storage.options import StoreOptions
from flaremq.testing import ephemeral_broker
from tests.support.hostile_rows import Row, batch_of, hostile_rows
from tests.support.stored_rows import KINDS, check_chunks, check_stored

TASK = TaskIdentity("hostile", 0, 1)
ROWS = 500  # in an Arrow batch


class Kept:
    """A target that keeps nothing but what was opened and how many parcels came."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self.parcels = 0

    def open(self, lane: LaneKey) -> staging.Stored:
        check_queue(self._options.path or "", lane, self._options.queues)
        return staging.NOTHING_STORED

    def chains(self, lane: LaneKey, numbers: Any) -> dict[int, int]:
        raise AssertionError

    def put(self, lane: LaneKey, parcel: Any) -> None:
        self.parcels += 1

    def finish(self) -> None:
        pass


def rules_of(options: SinkOptions) -> RowRules:
    return options.row_rules


def check_refused(rows: list[Row], good: list[Row], options: SinkOptions) -> None:
    """Each bad row among good ones: nothing of its batch is written, and its number and what is wrong are told."""
    for number, row in enumerate(rows):
        first = good[number % 50 : number % 50 + 3]
        target = Kept(options)
        words = row.refusals(options.max_message_size, drops_reserved=options.row_rules.drop_reserved)
        task = SinkTask(target, TASK, rules_of(options), request_bytes=4096)
        with pytest.raises(InvalidArgumentError) as caught:
            task.write([batch_of([*first, row, good[0]])])
            raise AssertionError(f"taken in spite of {words}: {row!r}"[:2000])
        text = str(caught.value)
        assert any(word in text for word in words), f"{text} for {row!r}"[:2000]
        assert f"row {len(first)} " in text or f"queue {row.queue_id}" in text, text
        assert target.parcels == 0


def keyed(rows: list[Row]) -> dict[str, Row]:
    """Rows by the unique key that their message gets."""
    counts: dict[LaneKey, int] = {}
    found = {}
    for row in rows:
        lane = LaneKey(row.topic.decode(), -1 if row.queue_id is None else row.queue_id, row.level > 0)
        number = counts[lane] = counts.get(lane, -1) + 1
        found[unique_key(lane.stem(TASK), number)] = row
    return found


def batches(rows: list[Row]) -> list[Any]:
    return [batch_of(rows[first : first + ROWS]) for first in range(0, len(rows), ROWS)]


def write_store(options: SinkOptions, rows: list[Row]) -> None:
    """What tasks and the driver do."""
    write = stem_of("write", TASK.write_id)
    folder = staging.batch_folder(options.path, write, TASK.batch_id)
    with staging.StagingTarget(folder, TASK, "0", partial(check_queue, options.path, queues=options.queues)) as target:
        sink = SinkTask(target, TASK, rules_of(options), request_bytes=options.request_bytes)
        report = sink.write(batches(rows))
    file = staging.StagedFile(target.name, target.size, TASK.partition, report.rows)
    staging.decide(options.path, staging.StagedBatch(write, TASK.batch_id, TASK.write_id, True, (file,)))
    take_in(options)


def write_wire(root: Path, kind: dict[str, str], rows: list[Row], like: SinkOptions) -> None:
    """The same over the wire; of how large a broker's files are, a sink must be told."""
    settings: dict[str, object] = {**kind, "flushDiskType": "ASYNC_FLUSH"}
    settings.pop("brokerIP1", None)
    with ephemeral_broker(clock=ManualClock(), path=str(root), **settings) as broker:
        given = {"nameServer": broker.name_server, "retryTimeoutMs": "0"}
        given |= {"maxMessageSize": str(like.max_message_size), "requestBytes": str(like.request_bytes)}
        options = parse_sink_options(given | {"reservedProperties": like.reserved_properties})
        with WireTarget(options, TASK) as target:
            sink = SinkTask(target, TASK, rules_of(options), request_bytes=options.request_bytes)
            assert sink.write(batches(rows)).rows == len(rows)
        health = broker.broker.store.health_state
        assert health.refusal is None, health.refusal


def check_chunk(root: Path, name: str, seed: int, count: int) -> None:
    kind, drops = KINDS[name], seed % 4 > 0
    os.makedirs(root)
    given = kind | {"path": str(root / "store"), "reservedProperties": "drop" if drops else "fail"}
    options = check_store(parse_sink_options(given))
    rows = hostile_rows(seed, StoreOptions.from_properties(kind), options.max_message_size, count)
    taken, refused = [], []
    for row in rows:
        (refused if row.refusals(options.max_message_size, drops_reserved=drops) else taken).append(row)
    assert len(taken) > count // 4
    check_refused(refused, taken, options)
    write_store(options, taken)
    check_stored(root / "store", kind, keyed(taken))
    write_wire(root / "broker", kind, taken, options)
    check_stored(root / "broker", kind, keyed(taken))


@pytest.mark.slow
def test_rows_are_refused_with_a_reason_or_stored_as_they_are(tmp_path: Path) -> None:
    check_chunks(check_chunk, tmp_path, 20261118, 1_200, len(KINDS))


@pytest.mark.soak
def test_rows_are_refused_with_a_reason_or_stored_as_they_are_for_many(tmp_path: Path) -> None:
    check_chunks(check_chunk, tmp_path, secrets.randbits(32), 10_000, 20)
