"""The small views of ``sql``: queues, groups and index files, read on the driver when a statement asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from flaremq.pipeline.jobs.group_lag import group_lags
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import QueueExtent, QueueRef, Span
from flaremq.pipeline.options import ScanOptions, index_geometry
from flaremq.pipeline.sources.open import open_source
from flaremq.storage.at_rest.reader import StoreReader

_EVERY_TOPIC = TopicSelector(pattern=".*")
_TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}


def _schema(ddl: str) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in (field.split() for field in ddl.split(","))])


SCHEMAS: Mapping[str, pa.Schema] = {
    "queues": _schema(
        "topic string, brokerName string, queueId int, minOffset bigint, maxOffset bigint, messages bigint, "
        "bytes bigint, firstStoreTimestamp timestamp, lastStoreTimestamp timestamp"
    ),
    "groups": _schema("group string, topic string, brokerName string, queueId int, committedOffset bigint, lag bigint"),
    "index": _schema(
        "brokerName string, name string, beginTimestamp timestamp, endTimestamp timestamp, beginPhysicalOffset bigint, "
        "endPhysicalOffset bigint, slots int, slotsUsed int, entries bigint, entriesMax int, bytes bigint"
    ),
}


def view_rows(name: str, spec: SourceSpec, options: ScanOptions) -> pa.Table:
    """The rows of a view as they are now."""
    if name == "index":
        return _table(name, [row for broker, path in spec.paths for row in _index_rows(broker, path, spec.geometry)])
    with open_source(spec) as source:
        if name == "groups":
            return _table(name, _group_rows(spec, source.extents(_EVERY_TOPIC)))
        selector = options.selector if options.names_topics else _EVERY_TOPIC
        return _table(name, _queue_rows(source, source.extents(selector)))


def _queue_rows(source: Source, extents: list[QueueExtent]) -> list[tuple[Any, ...]]:
    """Every queue. Bytes are what a plan takes them for: long queues are sampled."""
    spans = [Span(extent.queue, extent.min_offset, extent.max_offset) for extent in extents]
    sizes = {profile.span.queue: profile.size_bytes for profile in source.profiles([s for s in spans if s.count])}
    first = _store_times(source, [Span(span.queue, span.start, span.start + 1) for span in spans if span.count])
    last = _store_times(source, [Span(span.queue, span.end - 1, span.end) for span in spans if span.count])
    return [
        (
            *span.queue,
            span.start,
            span.end,
            span.count,
            sizes.get(span.queue, 0),
            first.get(span.queue),
            last.get(span.queue),
        )
        for span in spans
    ]


def _store_times(source: Source, spans: list[Span]) -> dict[QueueRef, Any]:
    request = ReadRequest(schema_of(("topic", "brokerName", "queueId", "storeTimestamp")), fail_on_data_loss=False)
    found: dict[QueueRef, Any] = {}
    for batch in source.read(spans, request):
        for topic, broker, queue_id, time in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[QueueRef(topic, broker, queue_id)] = time
    return found


def _group_rows(spec: SourceSpec, extents: list[QueueExtent]) -> list[tuple[Any, ...]]:
    return [
        (lag.group, lag.topic, lag.broker, lag.queue_id, lag.committed_offset, lag.lag)
        for lag in group_lags(spec, extents)
    ]


def _index_rows(broker: str, path: str, geometry: Mapping[str, str]) -> list[tuple[Any, ...]]:
    rows = []
    # Headers only, so a live store may be looked at without its lock.
    with StoreReader.open(path, index_geometry=index_geometry(geometry), lock=False) as reader:
        for index in reader.indexes:
            header, sizes = index.header, index.geometry
            rows.append(
                (
                    broker,
                    index.name,
                    header.begin_timestamp * 1000,
                    header.end_timestamp * 1000,
                    header.begin_offset,
                    header.end_offset,
                    None if sizes is None else sizes.slots,
                    header.slot_count,
                    header.index_count - 1,
                    None if sizes is None else sizes.entries,
                    index.size,
                )
            )
    return rows


def _table(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = SCHEMAS[name]
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in schema]
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
