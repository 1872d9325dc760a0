"""Compiled kernels of the store: everything that touches each record of a log, in bulk and without the GIL.

This module is the front door; the kernels live in ``kernels_*.py`` by subject. They are the fast twin of
``flaremq.message`` and of the plain code in this package, hold no state and know no files: arrays in, arrays
and codes out. Importing it costs half a second (Numba itself, mostly), so everybody imports it inside the
function that needs it; ``python -m flaremq.storage.kernels`` compiles and caches everything ahead of time.

A typical dispatch of one log file::

    log = as_array(mapped_file.buffer)
    rows, at, stop = walk(log, start, end, base, 0, table.columns)
    order, starts = group_queues(log, table.columns, rows)
    fill_units(table.columns, order[starts[g]:starts[g + 1]], delay_ms, units)      # for each group g
    hashes, offsets, times = index_keys(log, table.columns, 0, rows, skip_below, False)
    position, code = index_put(index, slots, entries, reserved, hashes, offsets, times, 0)

Arrays must be C-contiguous; ``log`` and other inputs may be read-only. An array over a mapped file keeps the
mapping alive: drop it before the file is closed.
"""

from __future__ import annotations

import numpy as np

from flaremq.storage.kernels_append import append_records
from flaremq.storage.kernels_batch import append_batch, measure_batch
from flaremq.storage.kernels_compile import ArrowOffsets, Bytes, Integers
from flaremq.storage.kernels_gather import MapColumns, copy_records, copy_units, gather, properties_columns
from flaremq.storage.kernels_index import (
    PUT_DONE,
    PUT_FULL,
    PUT_PLAIN,
    PUT_RESERVE,
    index_keys,
    index_put,
    index_rebuild_slots,
)
from flaremq.storage.kernels_lookup import (
    INDEX_GEOMETRY,
    INDEX_HASH,
    INDEX_LINK,
    INDEX_OFFSET_ORDER,
    INDEX_OFFSET_RANGE,
    INDEX_SLOT,
    INDEX_SOUND,
    INDEX_TIME,
    MATCH,
    NO_MATCH,
    UNDECIDED,
    index_check,
    index_lookup_many,
    match_keys,
)
from flaremq.storage.kernels_pull import select_units
from flaremq.storage.kernels_queue import fill_units, group_queues, parse_units
from flaremq.storage.kernels_record import find_candidate, parse_at, resync, walk
from flaremq.storage.kernels_table import (
    BLANK,
    BODY_AT,
    BODY_CRC,
    BODY_LENGTH,
    BORN_TIMESTAMP,
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    COLUMN_COUNT,
    DELAY_LEVEL,
    EMPTY,
    END,
    FILE_OFFSET,
    FLAG,
    FULL,
    HEADERS_ONLY,
    IMPLAUSIBLE,
    INVALID_BODY_CRC,
    INVALID_LENGTHS,
    INVALID_MAGIC,
    INVALID_OFFSET,
    INVALID_RECORD_CRC,
    INVALID_SIZE,
    KEYS_AT,
    KEYS_LENGTH,
    MARK_BAD_TEXT,
    MARK_INNER_BATCH,
    MARK_MULTI_DISPATCH,
    MARK_RECORD_CRC,
    MARK_SCHEDULE,
    MARKS,
    OK,
    PHYSICAL_OFFSET,
    PREPARED_OFFSET,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
    QUEUE_HASH,
    QUEUE_ID,
    QUEUE_OFFSET,
    RECONSUME_TIMES,
    REQUIRE_RECORD_CRC,
    RESULT,
    SIZE,
    STORE_TIMESTAMP,
    STRICT,
    SYS_FLAG,
    TAGS_AT,
    TAGS_CODE,
    TAGS_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
    UNIQUE_KEY_AT,
    UNIQUE_KEY_LENGTH,
    VERSION,
    RecordTable,
)
from flaremq.storage.kernels_text import NOT_UTF8, java_hash_utf8, key_hashes

__all__ = [
    "BLANK",
    "BODY_AT",
    "BODY_CRC",
    "BODY_LENGTH",
    "BORN_TIMESTAMP",
    "CHECK_BODY_CRC",
    "CHECK_RECORD_CRC",
    "COLUMN_COUNT",
    "DELAY_LEVEL",
    "EMPTY",
    "END",
    "FILE_OFFSET",
    "FLAG",
    "FULL",
    "HEADERS_ONLY",
    "IMPLAUSIBLE",
    "INDEX_GEOMETRY",
    "INDEX_HASH",
    "INDEX_LINK",
    "INDEX_OFFSET_ORDER",
    "INDEX_OFFSET_RANGE",
    "INDEX_SLOT",
    "INDEX_SOUND",
    "INDEX_TIME",
    "INVALID_BODY_CRC",
    "INVALID_LENGTHS",
    "INVALID_MAGIC",
    "INVALID_OFFSET",
    "INVALID_RECORD_CRC",
    "INVALID_SIZE",
    "KEYS_AT",
    "KEYS_LENGTH",
    "MARKS",
    "MARK_BAD_TEXT",
    "MARK_INNER_BATCH",
    "MARK_MULTI_DISPATCH",
    "MARK_RECORD_CRC",
    "MARK_SCHEDULE",
    "MATCH",
    "NOT_UTF8",
    "NO_MATCH",
    "OK",
    "PHYSICAL_OFFSET",
    "PREPARED_OFFSET",
    "PROPERTIES_AT",
    "PROPERTIES_LENGTH",
    "PUT_DONE",
    "PUT_FULL",
    "PUT_PLAIN",
    "PUT_RESERVE",
    "QUEUE_HASH",
    "QUEUE_ID",
    "QUEUE_OFFSET",
    "RECONSUME_TIMES",
    "REQUIRE_RECORD_CRC",
    "RESULT",
    "SIZE",
    "STORE_TIMESTAMP",
    "STRICT",
    "SYS_FLAG",
    "TAGS_AT",
    "TAGS_CODE",
    "TAGS_LENGTH",
    "TOPIC_AT",
    "TOPIC_LENGTH",
    "UNDECIDED",
    "UNIQUE_KEY_AT",
    "UNIQUE_KEY_LENGTH",
    "VERSION",
    "ArrowOffsets",
    "Bytes",
    "Integers",
    "MapColumns",
    "RecordTable",
    "append_batch",
    "append_records",
    "as_array",
    "copy_records",
    "copy_units",
    "fill_units",
    "find_candidate",
    "gather",
    "group_queues",
    "index_check",
    "index_keys",
    "index_lookup_many",
    "index_put",
    "index_rebuild_slots",
    "java_hash_utf8",
    "key_hashes",
    "match_keys",
    "measure_batch",
    "parse_at",
    "parse_units",
    "properties_columns",
    "rebuild_slots",
    "resync",
    "select_units",
    "walk",
]


def as_array(buffer: bytes | bytearray | memoryview) -> Bytes:
    """The bytes of a buffer as an array over the same memory; read-only if the buffer is."""
    return np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)


def rebuild_slots(buffer: bytearray | memoryview, slots: int, entries: int, count: int) -> int:
    """``index_rebuild_slots`` on a mapped index file."""
    return index_rebuild_slots(as_array(buffer), slots, entries, count)


if __name__ == "__main__":
    print("flaremq: kernels are compiled and cached")
