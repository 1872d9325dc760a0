"""replay: messages of a store, a cluster or an archive sent once more, to the same topic or another one.

Messages of one queue keep their order and go to one queue. A run that was broken off is simply repeated: each message
is known at the target by the replay's id and the place it came from, and is sent once by all runs of one id together.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from flaremq.errors import InvalidArgumentError
from flaremq.message.compression import INFLATED_SIZE_MAX
from flaremq.message.write_stream import stem_of
from flaremq.pipeline.jobs.object_access import with_object_access
from flaremq.pipeline.jobs.replay.rows import SCHEMA
from flaremq.pipeline.jobs.replay.task import ReplayReport, ReplayTask, run_replay_task
from flaremq.pipeline.jobs.session import AnySession, started
from flaremq.pipeline.jobs.tasks import Progress, parallelism, run_tasks
from flaremq.pipeline.model.source import ReadRequest, SourceSpec
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.planning.partitions import ScanPiece, scan_spans
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.rows import check_topic
from flaremq.pipeline.sink.staging import STAGING, StagedBatch, decide, remove_batch
from flaremq.pipeline.sink.store import check_store, take_in
from flaremq.pipeline.sink.wire import WireTarget
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.storage.arrow.bodies import AS_STORED, BodyRule


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """``rows`` messages were wanted: ``sent`` by this run, ``sent_before`` by earlier ones.

    ``skipped`` ones cannot be sent (an empty body) or were put there by this replay itself. ``missing`` ones were sent
    by an earlier run and are not wanted any more: the source has lost them, or the choice was another one.
    """

    replay_id: str
    rows: int
    sent: int
    sent_before: int
    skipped: int
    missing: int
    queues: int

    def to_json(self) -> dict[str, Any]:
        return {
            "replayId": self.replay_id,
            "rows": self.rows,
            "sent": self.sent,
            "sentBefore": self.sent_before,
            "skipped": self.skipped,
            "missing": self.missing,
            "queues": self.queues,
        }


def replay(
    spark: AnySession,
    options: Mapping[str, str] | ScanOptions,
    *,
    to_name_server: str | None = None,
    to_path: str | None = None,
    to_topic: str | None = None,
    rate: float | None = None,
    replay_id: str | None = None,
    keep_queues: bool = False,
    to_options: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> ReplayResult:
    """Send the messages that ``options`` choose (place, topics, offsets or times, keys, tags) to a cluster or a store.

    ``rate`` is messages a second at most, all tasks together. Without ``replay_id`` it follows from the other
    arguments, so the same call repeated is the same replay. ``keep_queues`` sends to the queue of the same number;
    ``to_options`` are further options of the sink (credentials, ``queues``, …).
    """
    parsed = options if isinstance(options, ScanOptions) else parse_options(options)
    if rate is not None and rate <= 0:
        raise InvalidArgumentError(f"a rate of {rate} messages a second sends nothing; give more than 0, or none")
    parsed = with_object_access(parsed, spark)
    spec = source_spec(parsed)
    name = replay_id or default_replay_id(parsed, spec, to_name_server, to_path, to_topic, keep_queues=keep_queues)
    sink = checked_target(_sink_options(name, to_name_server, to_path, to_topic, to_options or {}))
    with open_source(spec) as source:  # open until the tasks are done: it keeps what was planned from being deleted
        spans = scan_spans(source, parsed)
        if to_topic is None:
            for topic in sorted({span.queue.topic for span in spans}):
                _check_own_topic(topic)
        tasks = plan_replay(parsed, spec, spans, sink, name, keep_queues=keep_queues)
        session = started(spark)
        tasks = _paced(tasks, rate, parallelism(session))
        try:
            reports = run_tasks(session, tasks, run_replay_task, what="replay", on_progress=on_progress)
        except BaseException:
            if sink.path:
                remove_batch(sink.path, stem_of("write", name), 0, undecided_only=True)
            raise
    finish_replay(sink, name, reports)
    return result_of(name, tasks, reports)


def default_replay_id(
    options: ScanOptions,
    spec: SourceSpec,
    to_name_server: str | None,
    to_path: str | None,
    to_topic: str | None,
    *,
    keep_queues: bool,
) -> str:
    """The same for the same messages to the same place."""
    choice: list[object] = [options.topic, options.subscribe_pattern, options.starting_offsets, options.ending_offsets]
    choice += [options.starting_timestamp, options.ending_timestamp, sorted(options.tags), sorted(options.key_list)]
    # Only where they are given: replays from before there were these go on under the ids they have.
    by_queue = [options.assign, options.starting_offsets_by_timestamp, options.ending_offsets_by_timestamp]
    choice += [by_queue] if any(by_queue) else []
    place = [spec.paths, spec.name_server, spec.archive]
    target = [to_name_server, None if to_path is None else os.path.abspath(to_path), to_topic, keep_queues]
    text = orjson.dumps([place, choice, target])
    return "replay-" + hashlib.blake2b(text, digest_size=8).hexdigest()


def plan_replay(
    options: ScanOptions, spec: SourceSpec, spans: Sequence[Span], sink: SinkOptions, name: str, *, keep_queues: bool
) -> list[ReplayTask]:
    """A task for each queue: its messages have an order, and that is kept."""
    by_queue: dict[QueueRef, list[Span]] = {}
    for span in sorted(spans):
        by_queue.setdefault(span.queue, []).append(span)
    # What cannot be inflated, or not to a message that the target takes, is carried over as it is stored.
    bodies = BodyRule(AS_STORED, min(INFLATED_SIZE_MAX, sink.max_message_size))
    request = ReadRequest(SCHEMA, tags=options.tags, fail_on_data_loss=options.fail_on_data_loss, bodies=bodies)
    pieces = [ScanPiece(tuple(given), options.key_list) for given in by_queue.values()]
    return [ReplayTask(spec, piece, request, sink, name, keep_queues) for piece in pieces]


def finish_replay(sink: SinkOptions, name: str, reports: Sequence[ReplayReport]) -> None:
    """For a store: take in what the tasks have staged."""
    files = tuple(report.staged for report in reports if report.staged is not None)
    if not sink.path or not files:
        return
    decide(sink.path, StagedBatch(stem_of("write", name), 0, name, False, files))
    take_in(sink)


def result_of(name: str, tasks: Sequence[ReplayTask], reports: Sequence[ReplayReport]) -> ReplayResult:
    rows, before = sum(report.rows for report in reports), sum(report.stored_before for report in reports)
    return ReplayResult(
        name,
        rows,
        rows - before,
        before,
        sum(report.skipped for report in reports),
        sum(report.missing for report in reports),
        len(tasks),
    )


def _sink_options(
    name: str, to_name_server: str | None, to_path: str | None, to_topic: str | None, others: Mapping[str, str]
) -> SinkOptions:
    if (to_name_server is None) == (to_path is None):
        what = "both" if to_path is not None else "neither"
        raise InvalidArgumentError(f"{what} of a name server and a store to send to: give one of the two")
    given = dict(others) | {"writeId": name, "reservedProperties": "drop"}
    for key, value in (("nameServer", to_name_server), ("path", to_path), ("topic", to_topic)):
        if value is not None:
            given[key] = value
    return parse_sink_options(given)


def checked_target(sink: SinkOptions) -> SinkOptions:
    """The target's options for tasks, when it is known that it can be written to."""
    if sink.topic:
        check_topic(sink.topic)
    if not sink.path:
        with WireTarget(sink, None) as target:
            target.check_topic(sink.topic)
        return sink
    checked = check_store(sink)
    if os.path.isdir(os.path.join(sink.path, STAGING)):
        take_in(checked)  # a run before was cut short after it had decided
    return checked


def _check_own_topic(topic: str) -> None:
    try:
        check_topic(topic)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error}; choose topics, or give one to send to") from None


def _paced(tasks: list[ReplayTask], rate: float | None, parallelism: int) -> list[ReplayTask]:
    """The rate shared out over the tasks that can run at the same time."""
    if rate is None or not tasks:
        return tasks
    share = rate / min(len(tasks), max(1, parallelism))
    return [replace(task, rate=share) for task in tasks]
