"""Messages with a key, found through the brokers' indexes; where an index cannot tell all of them, by reading on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from flaremq.client.blocking import LoopThread
from flaremq.client.instance import ClientInstance
from flaremq.client.scan.cluster_view import each
from flaremq.client.scan.key_query import KeyQuery
from flaremq.client.scan.queue_pulls import QueuePulls
from flaremq.errors import UnavailableError
from flaremq.message.message_ext import MessageExt
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.source import ReadRequest
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.sources.keys import having_key
from flaremq.pipeline.sources.wire_fetch import Chunk
from flaremq.storage.arrow.bodies import BodyReader

_log = logging.getLogger(__name__)
_Read = Callable[[Sequence[Span], ReadRequest], Iterator[pa.RecordBatch]]
_Found = list[MessageExt] | None


def find_keys(
    loop: LoopThread,
    instance: ClientInstance,
    pulls: QueuePulls,
    read: _Read,
    keys: Sequence[str],
    spans: Sequence[Span],
    request: ReadRequest,
) -> Iterator[pa.RecordBatch]:
    """Messages within the spans that have one of the keys, each once."""
    wanted = sorted({key for key in keys if key})
    by_topic: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        if span.count > 0:
            by_topic.setdefault((span.queue.topic, span.queue.broker), []).append(span)
    if not wanted:
        return
    for (topic, broker), here in sorted(by_topic.items()):
        found = loop.call(_ask(instance, pulls, here[0].queue, wanted))
        if found is None:
            _log.warning(
                "the index of broker %s cannot tell every message of topic %s with these keys: its queues are read",
                broker,
                topic,
            )
            yield from _filtered(read, here, wanted, request)
        else:
            yield from _decoded(found, here, broker, request)


async def _ask(instance: ClientInstance, pulls: QueuePulls, queue: QueueRef, keys: Sequence[str]) -> _Found:
    tries = 0
    while True:
        _, address = await pulls.address(queue, tries)
        find = partial(KeyQuery(instance, address).find, queue.topic)
        try:
            pages = await each(keys, find)
        except UnavailableError:
            tries += 1
            if tries > 2:
                return None  # the queues are read instead, with all the patience that has
            continue
        found: dict[int, MessageExt] = {}
        for page in pages:
            if page is None:
                return None
            found.update((message.physical_offset, message) for message in page)
        return [found[place] for place in sorted(found)]


def _decoded(
    messages: Sequence[MessageExt], spans: Sequence[Span], broker: str, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    bodies = BodyReader(request.bodies, f"what broker {broker} sent")
    by_queue: dict[int, list[MessageExt]] = {}
    for message in messages:
        by_queue.setdefault(message.queue_id, []).append(message)
    for span in spans:
        records = b"".join([message.record for message in by_queue.get(span.queue.queue_id, ())])
        if records:
            batches = Chunk(span, span.start, span.end, records).batches(request, bodies)
            yield from (batch for batch in batches if batch.num_rows)
    bodies.tell()


def _filtered(
    read: _Read, spans: Sequence[Span], keys: Sequence[str], request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """A scan that keeps rows with one of the keys: what the index would have given."""
    names = request.schema.names
    more = [SCHEMA.field(name) for name in ("keys", "properties") if name not in names]
    wide = replace(request, schema=pa.schema([*request.schema, *more]))
    for batch in read(spans, wide):
        kept = batch.filter(having_key(batch, frozenset(keys)))
        if kept.num_rows:
            yield pa.RecordBatch.from_arrays([kept.column(name) for name in names], schema=request.schema)
