"""Rows of a sink: an Arrow batch checked as a whole and laid out for encoding, without a Python object per row.

Everything that can be wrong with a row is found here, before any row of the batch is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.core.stream_items import SUFFIX_SIZE
from flaremq.errors import InvalidArgumentError
from flaremq.message.batch import ITEM_OVERHEAD
from flaremq.message.java_hash import java_hash
from flaremq.message.topics import NO_CLIENT_SEND, RETRY_PREFIX, validate_topic
from flaremq.pipeline.bodies.encoding.encoder import BodyEncoder, UnfitRowError
from flaremq.pipeline.sink.byte_column import ByteColumn, Integers
from flaremq.pipeline.sink.names import is_reserved
from flaremq.pipeline.sink.text import RowError, as_binary, check_texts, check_utf8

# What a record can hold, 32,767 bytes, less room for what is added to a row's own: its key and digest, the checksum,
# and by brokers their region and cluster and where a delayed message goes.
PROPERTIES_MAX = 32_000
_SHOWN = 60
_EMPTY = pa.scalar(b"", pa.large_binary())


@dataclass(frozen=True, slots=True)
class SinkRows:
    """A batch that can be written: what is where, by row. Queue -1 leaves the choice to us, delay level 0 means now."""

    topics: tuple[str, ...]
    topic_numbers: Integers
    queue_ids: Integers
    delay_levels: Integers
    bodies: ByteColumn
    properties: ByteColumn

    def __len__(self) -> int:
        return len(self.topic_numbers)


@dataclass(frozen=True, slots=True)
class RowRules:
    """What a sink asks of rows."""

    topic: str  # of rows without one; empty if every row must have its own
    max_message_size: int
    drop_reserved: bool = False
    delay_level_max: int = 18  # of RocketMQ's messageDelayLevel
    queues: int = 4  # that rows with an ordering key are spread over
    encoder: BodyEncoder | None = None  # of rows whose columns are fields of bodies


def check_topic(name: str) -> None:
    """Refuse a topic nobody may send rows to."""
    validate_topic(name)
    if name in NO_CLIENT_SEND or name.startswith(RETRY_PREFIX):
        raise InvalidArgumentError(f"topic {name!r} is one of RocketMQ's own: rows cannot be written to it")


def check_batch(batch: pa.RecordBatch, rules: RowRules) -> SinkRows:
    """The rows of a batch; InvalidArgumentError names the first one that cannot be written, and nothing is."""
    if rules.encoder is not None:
        try:
            batch = rules.encoder.encoded(batch)
        except UnfitRowError as error:
            raise RowError(error.row, error.reason) from error
    columns = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
    count = batch.num_rows
    topics, numbers = _topics(columns.get("topic"), rules.topic, count)
    delays = _delay_levels(columns.get("delayLevel"), count, rules.delay_level_max)
    bodies = _bodies(columns["body"])
    properties = ByteColumn.of(_properties(columns, delays, count, rules.drop_reserved))
    sizes, limit = bodies.lengths, rules.max_message_size
    whole = sizes + properties.lengths + SUFFIX_SIZE + ITEM_OVERHEAD
    _refuse(sizes == 0, lambda row: "has an empty body, which no broker accepts")
    _refuse(
        properties.lengths > PROPERTIES_MAX,
        lambda row: (
            f"has {properties.lengths[row]} bytes of properties, tags and keys, at most {PROPERTIES_MAX} can be stored"
        ),
    )
    _refuse(
        whole > limit,
        lambda row: (
            f"makes a message of {whole[row]} bytes, {sizes[row]} of them its body, larger than maxMessageSize {limit}"
        ),
    )
    queue_ids = _integers(columns.get("queueId"), "queueId", -1, count)
    if (order_keys := columns.get("orderKey")) is not None:
        queue_ids = np.where(queue_ids < 0, _queues_of(order_keys, rules.queues), queue_ids)
    return SinkRows(topics, numbers, queue_ids, delays, bodies, properties)


def _refuse(bad: np.ndarray[Any, np.dtype[np.bool_]], reason_of: Callable[[int], str]) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(row, reason_of(row))


def _topics(column: pa.Array | None, default: str, count: int) -> tuple[tuple[str, ...], Integers]:
    if column is None:
        assert default, "the driver has asked for one"
        return (default,), np.zeros(count, np.int64)
    if column.null_count:
        if not default:
            row = int(np.argmax(pc.is_null(column).to_numpy(zero_copy_only=False)))
            raise RowError(row, "has no topic, and there is no option topic for those without one")
        column = pc.fill_null(column, default)
    coded = column if isinstance(column, pa.DictionaryArray) else pc.dictionary_encode(column)
    numbers: Integers = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)

    def row_of(number: int) -> int:
        return int(np.argmax(numbers == number))

    check_utf8(coded.dictionary, "topic", row_of)
    names = tuple(coded.dictionary.to_pylist())
    for number, name in enumerate(names):
        try:
            check_topic(name)
        except InvalidArgumentError as error:
            raise RowError(row_of(number), f"cannot be written: {error}") from None
    return names, numbers


def _integers(column: pa.Array | None, name: str, default: int, count: int) -> Integers:
    if column is None:
        return np.full(count, default, np.int64)
    values: Integers = pc.fill_null(column.cast(pa.int64()), default).to_numpy(zero_copy_only=False)
    given = pc.is_valid(column).to_numpy(zero_copy_only=False)
    _refuse(
        given & ((values < 0) | (values > 0x7FFFFFFF)),
        lambda row: f"has {name} {values[row]}, which is none",
    )
    return values


def _queues_of(keys: pa.Array, queues: int) -> Integers:
    """The queue of each key, the same as for ``send_ordered``; -1 where there is none."""
    coded = keys if isinstance(keys, pa.DictionaryArray) else pc.dictionary_encode(keys)
    numbers: Integers = pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    check_utf8(coded.dictionary, "orderKey", lambda number: int(np.argmax(numbers == number)))
    chosen = [abs(java_hash(key)) % queues for key in coded.dictionary.to_pylist()]
    return np.array([*chosen, -1], np.int64)[numbers]


def _delay_levels(column: pa.Array | None, count: int, level_max: int) -> Integers:
    """A broker would silently take a level beyond its last for the last."""
    levels = _integers(column, "delayLevel", 0, count)
    _refuse(
        levels > level_max,
        lambda row: f"has delayLevel {levels[row]}, levels are 1 to {level_max}, and 0 for no delay",
    )
    return levels


def _bodies(column: pa.Array) -> ByteColumn:
    if column.null_count:
        row = int(np.argmax(pc.is_null(column).to_numpy(zero_copy_only=False)))
        raise RowError(row, "has no body (null)")
    return ByteColumn.of(as_binary(column))


# Properties: user's own, then KEYS, TAGS and DELAY, the order in which clients write them


def _properties(columns: dict[str, pa.Array], delays: Integers, count: int, drop_reserved: bool) -> pa.Array:
    parts = []
    if (given := columns.get("properties")) is not None:
        parts.append(_map_properties(given, drop_reserved))
    if (keys := columns.get("keys")) is not None:
        parts.append(_named("KEYS", _joined_keys(keys)))
    if (tags := columns.get("tags")) is not None:
        parts.append(_named("TAGS", as_binary(tags)))
    if delays.any():
        texts = pa.array(delays).cast(pa.string()).cast(pa.binary()).cast(pa.large_binary())
        parts.append(pc.if_else(pa.array(delays > 0), _wrapped("DELAY", texts), _EMPTY))
    if not parts:
        return pa.array([b""], pa.large_binary()).take(pa.array(np.zeros(count, np.int64)))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _EMPTY)


def _wrapped(name: str, values: pa.Array) -> pa.Array:
    head, tail = pa.scalar(f"{name}\x01".encode(), pa.large_binary()), pa.scalar(b"\x02", pa.large_binary())
    return pc.binary_join_element_wise(head, values, tail, _EMPTY)


def _named(name: str, values: pa.Array) -> pa.Array:
    """``name 0x01 value 0x02`` where there is a value, nothing where there is none."""
    filled = pc.fill_null(values, _EMPTY)
    check_texts(filled, name.lower())
    return pc.if_else(pc.greater(pc.binary_length(filled), 0), _wrapped(name, filled), _EMPTY)


def _joined_keys(column: pa.Array) -> pa.Array:
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return as_binary(column)
    column = column.cast(pa.list_(pa.string()))  # no kernel takes the lists of Spark, which say if they hold nulls
    members, rows = column.flatten(), pc.list_parent_indices(column)
    if members.null_count:
        row = rows[pc.index(pc.is_null(members), True).as_py()].as_py()
        raise RowError(row, "has a null in its list of keys; leave it out of the list")
    check_utf8(members, "the key", lambda at: rows[at].as_py())
    bad = pc.match_substring_regex(members, "^$| ")
    if pc.any(bad).as_py():
        at = pc.index(bad, True).as_py()
        key = members[at].as_py()[:_SHOWN]
        raise RowError(rows[at].as_py(), f"has the key {key!r}, empty or with a blank, which separates keys, in a list")
    return as_binary(pc.binary_join(column, " "))


def _map_properties(column: pa.Array, drop_reserved: bool) -> pa.Array:
    bounds = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    start, length = int(bounds[0]), int(bounds[-1] - bounds[0])
    names, values = column.keys.slice(start, length), column.items.slice(start, length)
    bounds = bounds - start

    def row_of(entry: int) -> int:
        return int(np.searchsorted(bounds, entry, "right")) - 1

    check_utf8(names, "a property named", row_of)
    reserved = _reserved(names)
    if reserved.any():
        if not drop_reserved:
            at = int(np.argmax(reserved))
            raise RowError(
                row_of(at),
                f"has the property {names[at].as_py()!r}, which is RocketMQ's own: use the columns tags, keys and "
                "delayLevel, or the option reservedProperties=drop to leave such properties out",
            )
        kept = pa.array(~reserved)
        names, values = names.filter(kept), values.filter(kept)
        bounds = np.concatenate(([0], np.cumsum(~reserved)))[bounds]
    for what, array in (("a property named", names), ("a property of value", values)):
        empty = pc.fill_null(pc.equal(pc.binary_length(array), 0), True)
        if pc.any(empty).as_py():
            at = pc.index(empty, True).as_py()
            why = f"has the property {names[at].as_py()!r}: its name or its value is empty or null"
            raise RowError(row_of(at), f"{why}, which cannot be stored")
        check_texts(array, what, row_of)
    pairs = pc.binary_join_element_wise(as_binary(names), as_binary(values), pa.scalar(b"\x01", pa.large_binary()))
    pieces = pc.binary_join_element_wise(pairs, _EMPTY, pa.scalar(b"\x02", pa.large_binary()))
    pieces = pieces.cast(pa.binary())
    lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pieces, mask=pc.is_null(column))
    return pc.fill_null(pc.binary_join(lists, pa.scalar(b"", pa.binary())), b"").cast(pa.large_binary())


def _reserved(names: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    coded = pc.dictionary_encode(names)
    verdicts = np.array([is_reserved(name) for name in coded.dictionary.to_pylist()] or [False])
    if not len(names):
        return np.zeros(0, np.bool_)
    taken: np.ndarray[Any, np.dtype[np.bool_]] = verdicts[coded.indices.to_numpy(zero_copy_only=False)]
    return taken
