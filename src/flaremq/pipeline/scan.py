"""``flaremq.scan``: the rows of ``format("flaremq")`` without Spark: for DuckDB, Polars, pandas."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Self

import pyarrow as pa

from flaremq.client.credentials import Credentials
from flaremq.options import value_text
from flaremq.pipeline.model.source import ReadRequest, Source
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.options import ScanOptions, parse_options, read_request
from flaremq.pipeline.planning.partitions import ScanPiece, chosen_extents, plan_pieces, read_piece, scan_spans
from flaremq.pipeline.planning.pushdown import NOTHING_PUSHED, Pushed
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.times import milliseconds_of

TimeArgument = int | str | date  # milliseconds since 1970, a text such as 2h, a date, a date and time
OffsetsArgument = str | Mapping[str, Mapping[str, Mapping[Any, int]]]


def scan(
    path: str | os.PathLike[str] | None = None,
    *,
    name_server: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    topic: str | Sequence[str] | None = None,
    subscribe_pattern: str | None = None,
    columns: str | Sequence[str] | None = None,
    starting_offsets: OffsetsArgument | None = None,
    ending_offsets: OffsetsArgument | None = None,
    starting_timestamp: TimeArgument | None = None,
    ending_timestamp: TimeArgument | None = None,
    sub_expression: str = "*",
    keys: str | Sequence[str] | None = None,
    broker_name: str | None = None,
    fail_on_data_loss: bool = True,
    credentials: Credentials | None = None,
    **options: object,
) -> pa.RecordBatchReader:
    """The messages of a store, a cluster or an archive as Arrow batches, read as they are taken.

    Arguments mean what the Spark options of the same name mean; ``options`` are further ones by their own spelling
    (``maxHashSlotNum=200``); ``credentials`` sign what a cluster is asked. The end is pinned now: what is stored later
    is not read. Wrong arguments, absent topics and lost messages raise here, damage raises from the batch it is met in.
    A queue's messages come in order.
    """
    given: dict[str, Any] = {
        "path": None if path is None else os.fspath(path),
        "nameServer": name_server,
        "archive": None if archive is None else os.fspath(archive),
        "topic": topic,
        "subscribePattern": subscribe_pattern,
        "columns": columns,
        "startingOffsets": starting_offsets,
        "endingOffsets": ending_offsets,
        "startingTimestamp": starting_timestamp,
        "endingTimestamp": ending_timestamp,
        "subExpression": sub_expression,
        "keys": keys,
        "brokerName": broker_name,
        "failOnDataLoss": fail_on_data_loss,
        **options,
    }
    parsed = parse_options({name: option_text(value) for name, value in given.items() if value is not None})
    if credentials is not None:
        client = parsed.wire.client.signed_by(credentials)  # refuses two accounts
        account = {"accessKey": client.access_key, "secretKey": client.secret_key}
        token = {"securityToken": client.security_token} if client.security_token else {}
        parsed = replace(parsed, client={**parsed.client, **account, **token})
    return open_scan(parsed)


def open_scan(
    options: ScanOptions, pushed_of: Callable[[Sequence[QueueRef]], Pushed] | None = None
) -> pa.RecordBatchReader:
    """The same for options that are parsed already. ``pushed_of`` says what is left to read of the queues there are."""
    schema = options.scan_columns.schema_of(options.column_names)
    request = read_request(options, schema)
    keys = options.key_list
    spec = source_spec(options)
    source = open_source(spec)
    try:
        pushed = NOTHING_PUSHED
        if pushed_of is not None:
            pushed = pushed_of([extent.queue for extent in chosen_extents(source, options)])
            request, keys = pushed.applied(request, keys)
        spans = scan_spans(source, options, pushed)
        if pushed.tags is not None and not request.tags:
            spans = []  # none of the tags that are wanted is left
        pieces = plan_pieces(source, spec, spans, options, request, keys)
    except BaseException:
        source.close()
        raise
    return pa.RecordBatchReader.from_batches(schema, _Batches(source, pieces, request))


class _Batches:
    """The batches of all pieces; closes the source behind the last, after an error, or when nobody wants more."""

    def __init__(self, source: Source, pieces: Sequence[ScanPiece], request: ReadRequest) -> None:
        self._batches = (batch for piece in pieces for batch in read_piece(source, piece, request))
        self._close = weakref.finalize(self, source.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except BaseException:
            self._close()
            raise


def option_text(value: object) -> str:
    """An argument of Python as the text of an option."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return value_text(value)
    if isinstance(value, date):
        return str(milliseconds_of(value))
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, Sequence):
        return ",".join(str(part) for part in value)
    return str(value)
