"""``report``: what is in a store, a cluster or an archive, and what an operator should know of it.

Traffic, sizes, latency, tags and keys, retries and dead letters, delays, transactions, lag and room on disk; as
values for JSON and as one HTML page. Bodies are not read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.group_lag import delay_offsets, group_lags
from flaremq.pipeline.jobs.object_access import with_object_access
from flaremq.pipeline.jobs.report import sections
from flaremq.pipeline.jobs.report.disk import disk_json, forecast, measure_disk
from flaremq.pipeline.jobs.report.html import render_page
from flaremq.pipeline.jobs.report.notices import notices_of
from flaremq.pipeline.jobs.report.partial import COUNTED_COLUMNS, Partial
from flaremq.pipeline.jobs.report.scan import scan_pieces, special_topic
from flaremq.pipeline.jobs.session import AnySession, started
from flaremq.pipeline.jobs.tasks import Progress
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import Span
from flaremq.pipeline.options import NO_TIME, ScanOptions, parse_options
from flaremq.pipeline.planning.partitions import plan_pieces, scan_spans
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.storage.files.filesystem import LocalFileSystem, write_atomically

DEFAULT_TOP = 20
DEFAULT_RESERVED_HOURS = 72  # RocketMQ's fileReservedTime
_EVERY_TOPIC = TopicSelector(pattern=".*")


@dataclass(frozen=True, slots=True)
class Report:
    """A finished report."""

    document: dict[str, Any]
    out: str | None = None  # the page, if it was written

    def to_json(self) -> dict[str, Any]:
        return self.document if self.out is None else self.document | {"out": self.out}

    def to_html(self) -> str:
        return render_page(self.document)


# Long on purpose: the steps of a report from options to page, one after the other.
def report(
    spark: AnySession,
    options: Mapping[str, str],
    *,
    out: str | os.PathLike[str] | None = None,
    title: str | None = None,
    top: int = DEFAULT_TOP,
    reserved_hours: int = DEFAULT_RESERVED_HOURS,
    now_ms: int | None = None,
    on_progress: Progress | None = None,
) -> Report:
    """Read everything that ``options`` (those of the Spark source) name and tell what it is; ``out`` gets the page."""
    if top < 1 or reserved_hours < 1:
        raise InvalidArgumentError(f"top ({top}) and reserved_hours ({reserved_hours}) must be at least 1")
    chosen = with_object_access(parse_options(options), spark)
    for name, value in (("keys", chosen.keys), ("columns", chosen.columns)):
        if value:
            raise InvalidArgumentError(f"a report takes no {name}: it is about all messages of a range; leave it out")
    path = None if out is None else _checked_out(out)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    spec = source_spec(chosen)
    is_whole = not (chosen.names_topics or chosen.tags)
    if not chosen.names_topics:
        chosen = replace(chosen, subscribe_pattern=_EVERY_TOPIC.pattern or "")
    with open_source(spec) as source:
        extents = source.extents(_EVERY_TOPIC)
        pieces = _pieces(source, spec, chosen)
    findings = scan_pieces(
        started(spark),
        spec,
        pieces,
        top=top,
        now_ms=now,
        tags=chosen.tags,
        fail_on_data_loss=chosen.fail_on_data_loss,
        on_progress=on_progress,
    )
    lags = group_lags(spec, extents)
    document: dict[str, Any] = {
        "title": title or _title(chosen),
        "generatedMs": now,
        "source": _source_json(chosen, spec, is_whole=is_whole),
        "summary": sections.summary_of(findings, lags),
        "traffic": sections.traffic_of(findings),
        "sizes": sections.sizes_of(findings.counts),
        "latencyMs": sections.latency_of(findings.counts),
        "tags": sections.tags_of(findings),
        "keys": sections.keys_of(findings),
        "retries": sections.retries_of(findings.counts),
        "deadLetters": sections.dead_letters_of(findings.counts),
        "delays": sections.delays_of(findings, extents, delay_offsets(spec)),
        "transactions": sections.transactions_of(findings),
        "groups": sections.groups_of(lags, extents),
        "disk": _disks(spec, findings.counts, reserved_hours, is_whole=is_whole),
        "systemTopics": sections.system_of(findings),
    }
    document["notices"] = notices_of(document)
    if path is None:
        return Report(document)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomically(LocalFileSystem(), path, render_page(document).encode())
    return Report(document, path)


def _checked_out(out: str | os.PathLike[str]) -> str:
    path = os.path.abspath(os.fspath(out))
    if os.path.isdir(path):
        raise InvalidArgumentError(f"{path} is a directory; give the file that the page is written to")
    return path


def _pieces(source: Source, spec: SourceSpec, options: ScanOptions) -> list[tuple[Span, ...]]:
    """What each task reads; topics that are read with more columns have tasks of their own."""
    request = ReadRequest(schema_of(COUNTED_COLUMNS), tags=options.tags, fail_on_data_loss=options.fail_on_data_loss)
    by_kind: dict[str, list[Span]] = {}
    for span in scan_spans(source, options):
        by_kind.setdefault(special_topic(span.queue.topic), []).append(span)
    pieces: list[tuple[Span, ...]] = []
    for kind in sorted(by_kind):
        pieces += [piece.spans for piece in plan_pieces(source, spec, by_kind[kind], options, request)]
    return pieces


def _disks(spec: SourceSpec, counts: Partial, reserved_hours: int, *, is_whole: bool) -> list[dict[str, Any]]:
    """Stores on this machine; growth only where all topics were read."""
    disks = []
    for broker, path in spec.paths:
        disk = measure_disk(broker, path)
        queues = [count for (_, name, _), count in counts.queues.items() if name == broker]
        growth = None
        if is_whole and queues:
            span_ms = max(count.last_ms for count in queues) - min(count.first_ms for count in queues)
            log_bytes = sum(count.size_bytes for count in queues)
            growth = forecast(disk, log_bytes=log_bytes, span_ms=span_ms, reserved_hours=reserved_hours)
        disks.append(disk_json(disk) | {"growth": None if growth is None else growth.to_json()})
    return disks


def _title(options: ScanOptions) -> str:
    return f"Messages of {options.path or options.name_server or options.archive}"


def _source_json(options: ScanOptions, spec: SourceSpec, *, is_whole: bool) -> dict[str, Any]:
    kind = "cluster" if spec.name_server else "store" if spec.paths else "archive"
    return {
        "kind": kind,
        "place": options.path or options.name_server or options.archive,
        "archive": options.archive or None,
        "brokers": [name for name, _ in spec.paths],
        "topic": options.topic or ",".join(options.selector.names) or None,
        "subscribePattern": None
        if options.subscribe_pattern == _EVERY_TOPIC.pattern
        else options.subscribe_pattern or None,
        "tags": sorted(options.tags),
        "fromMs": None if options.starting_timestamp == NO_TIME else options.starting_timestamp,
        "untilMs": None if options.ending_timestamp == NO_TIME else options.ending_timestamp,
        "isWhole": is_whole,
    }
