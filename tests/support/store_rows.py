"""Rows of a store as a table, read the way the pipeline reads them, and the same rows by other ways."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flaremq.message.message_ext import MessageExt
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.sources.store import StoreSource
from flaremq.storage.message_store import MessageStore
from tests.support.store_lab import StoreLab

BROKER = "broker-a"
EVERYTHING = TopicSelector(pattern=".*")
UNIT_COLUMNS = ["topic", "brokerName", "queueId", "queueOffset", "physicalOffset", "storeSize"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def source_of(root: Path, **geometry: str) -> StoreSource:
    return StoreSource(SourceSpec(paths=((BROKER, str(root)),), geometry=geometry))


def spans_of(source: StoreSource, topics: TopicSelector = EVERYTHING) -> list[Span]:
    """All of every queue."""
    return [Span(extent.queue, extent.min_offset, extent.max_offset) for extent in source.extents(topics)]


def read_rows(
    source: StoreSource,
    spans: Sequence[Span],
    columns: Sequence[str] | None = None,
    *,
    tags: Sequence[str] = (),
    keys: Sequence[str] = (),
    fail_on_data_loss: bool = True,
) -> list[dict[str, Any]]:
    request = ReadRequest(schema_of(columns), frozenset(tags), fail_on_data_loss)
    batches = source.read_keys(keys, spans, request) if keys else source.read(spans, request)
    rows = []
    for batch in batches:
        assert batch.schema == request.schema
        batch.validate(full=True)
        rows += batch.to_pylist()
    for row in rows:
        if "properties" in row:
            row["properties"] = dict(row["properties"])
    return rows


def in_queue_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows sorted by queue, those of one queue as they came."""
    return sorted(rows, key=lambda row: (row["topic"], row["queueId"]))


def time_of(timestamp_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def row_of(message: MessageExt) -> dict[str, Any]:
    """All columns of a message."""
    return {
        "topic": message.topic,
        "brokerName": BROKER,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.physical_offset,
        "storeSize": message.size,
        "msgId": message.message_id,
        "tags": message.tags,
        "keys": message.properties.get("KEYS"),
        "body": message.body,
        "properties": message.properties,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": time_of(message.born_timestamp),
        "bornHost": message.born_host,
        "storeTimestamp": time_of(message.store_timestamp),
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "transactionId": message.properties.get("__transactionId__"),
    }


def rows_by_get(store: MessageStore) -> list[dict[str, Any]]:
    """Every message a consumer would get, queue by queue."""
    rows = []
    for topic, queue_id in sorted(store.queues()):
        offset = store.min_offset(topic, queue_id)
        while offset < store.max_offset(topic, queue_id):
            result = store.get(topic, queue_id, offset)
            rows += [row_of(message) for message in result.messages]
            offset = result.next_offset
    return rows


def queue(topic: str, queue_id: int = 0) -> QueueRef:
    return QueueRef(topic, BROKER, queue_id)


def all_rows(lab: StoreLab, columns: list[str] | None = None, **how: Any) -> list[dict[str, Any]]:
    """What a scan of the whole store gives."""
    with source_of(lab.root) as source:
        return in_queue_order(read_rows(source, spans_of(source), columns, **how))
