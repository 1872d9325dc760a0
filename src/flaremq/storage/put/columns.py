"""Many messages of one queue in one append: columns in, one kernel call under the put lock.

A batch costs the same few microseconds whether it holds ten messages or a hundred; per message only the joining of
bodies and properties is left. Checks are those of every put, made on the columns before the lock is taken.
"""

from __future__ import annotations

import numpy as np

from flaremq.errors import InvalidArgumentError
from flaremq.message.batch import ITEM_OVERHEAD
from flaremq.message.record.layout import BODY_AT_BY_FAMILY
from flaremq.storage.kernels import preload  # noqa: F401  # batches and pulls use kernels once all are loaded
from flaremq.storage.kernels.append import append_records
from flaremq.storage.kernels.batch import append_batch, measure_batch
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.log.append import Appended, RecordFields
from flaremq.storage.log.commit_log import CommitLog


def append_columns(
    log: CommitLog,
    fields: RecordFields,
    queue_offsets: dict[int, int],
    bodies: list[bytes],
    properties: list[bytes],
    flags: list[int] | None,
) -> Appended:
    """``append_records`` of the log, one kernel call for all records."""
    count = len(bodies)
    body_sizes = np.fromiter(map(len, bodies), np.int64, count)
    property_sizes = np.fromiter(map(len, properties), np.int64, count)
    sizes = body_sizes + property_sizes + _fixed_size(fields)
    total = int(sizes.sum())
    body_ends, property_ends = np.cumsum(body_sizes), np.cumsum(property_sizes)
    all_bodies, all_properties = as_array(b"".join(bodies)), as_array(b"".join(properties))
    flag_column = np.zeros(count, np.int64) if flags is None else np.array(flags, np.int64)
    at, base, now = log.claim(total)
    queue_offset = queue_offsets.get(fields.queue_id, 0)
    end = append_records(
        as_array(log.buffer),
        at,
        base,
        as_array(fields.prefix(now)),
        as_array(fields.topic),
        queue_offset,
        all_bodies,
        body_ends,
        all_properties,
        property_ends,
        flag_column,
    )
    assert end == at + total, f"the kernel wrote {end - at} bytes where {total} were reckoned"
    queue_offsets[fields.queue_id] = queue_offset + count
    log.publish(end, now)
    return queue_offset, base + at, now, sizes.tolist()


def append_batch_body(
    log: CommitLog,
    fields: RecordFields,
    queue_offsets: dict[int, int],
    body: bytes,
    *,
    size_max: int,
    count_max: int,
) -> Appended | None:
    """Append the messages of a batch body as it came off the wire, under ``log.lock``; None if plain code must look."""
    source = as_array(body)
    sizes = np.empty(len(body) // ITEM_OVERHEAD + 1, np.int64)
    count, total = measure_batch(source, _fixed_size(fields), sizes)
    if count > count_max:
        raise InvalidArgumentError(f"a batch of {count} messages, at most {count_max} are taken")
    if count <= 0 or total > size_max:
        return None
    at, base, now = log.claim(total)
    queue_offset = queue_offsets.get(fields.queue_id, 0)
    prefix, topic = as_array(fields.prefix(now)), as_array(fields.topic)
    end = append_batch(as_array(log.buffer), at, base, prefix, topic, queue_offset, source, total)
    assert end == at + total, f"the kernel wrote {end - at} bytes where {total} were reckoned"
    queue_offsets[fields.queue_id] = queue_offset + count
    log.publish(end, now)
    return queue_offset, base + at, now, sizes[:count].tolist()


def _fixed_size(fields: RecordFields) -> int:
    """Bytes of a record that has neither body nor properties."""
    return BODY_AT_BY_FAMILY[fields.sys_flag >> 4 & 3] + len(fields.topic) + 2
