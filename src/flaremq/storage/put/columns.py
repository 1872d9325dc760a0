"""Many messages of one queue in one append: columns in, one kernel call under the put lock.

A batch costs the same few microseconds whether it holds ten messages or a hundred; per message only the joining of
bodies and properties is left. Checks are those of every put, made on the columns before the lock is taken.
"""

from __future__ import annotations

import numpy as np

from flaremq.errors import InvalidArgumentError
from flaremq.message.batch import ITEM_OVERHEAD
from flaremq.message.record.codec import PREFIX_BY_FAMILY
from flaremq.storage.kernels import preload  # noqa: F401  # batches and pulls use kernels once all are loaded
from flaremq.storage.kernels.append import append_records
from flaremq.storage.kernels.batch import append_batch, measure_batch
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.log.commit_log import CommitLog


def append_columns(
    log: CommitLog,
    magic: int,
    topic_prefix: bytes,
    queue_offsets: dict[int, int],
    queue_id: int,
    bodies: list[bytes],
    properties: list[bytes],
    flags: list[int] | None,
    sys_flag: int,
    born_timestamp: int | None,
    born_host: bytes,
    store_host: bytes,
) -> tuple[int, int, int, list[int]]:
    """Append one record a body; the caller has checked sizes and holds ``log.lock``. As ``append_batch``."""
    count = len(bodies)
    struct = PREFIX_BY_FAMILY[sys_flag >> 4 & 3]
    body_sizes = np.fromiter(map(len, bodies), np.int64, count)
    property_sizes = np.fromiter(map(len, properties), np.int64, count)
    sizes = body_sizes + property_sizes + (struct.size + len(topic_prefix) + 2)
    body_ends, property_ends = np.cumsum(body_sizes), np.cumsum(property_sizes)
    all_bodies, all_properties = as_array(b"".join(bodies)), as_array(b"".join(properties))
    flag_column = np.zeros(count, np.int64) if flags is None else np.array(flags, np.int64)

    def prefix(now: int) -> bytes:
        born = now if born_timestamp is None else born_timestamp
        return struct.pack(0, magic, 0, queue_id, 0, 0, 0, sys_flag, born, born_host, now, store_host, 0, 0, 0)

    def write(buffer: memoryview, at: int, base: int, head: bytes, topic: bytes, queue_offset: int) -> int:
        return append_records(
            as_array(buffer),
            at,
            base,
            as_array(head),
            as_array(topic),
            queue_offset,
            all_bodies,
            body_ends,
            all_properties,
            property_ends,
            flag_column,
        )

    first_queue_offset, first_physical, now = log.append_columns(
        prefix, topic_prefix, queue_offsets, queue_id, int(sizes.sum()), write, count
    )
    return first_queue_offset, first_physical, now, sizes.tolist()


def append_batch_body(
    log: CommitLog,
    magic: int,
    topic_prefix: bytes,
    queue_offsets: dict[int, int],
    queue_id: int,
    body: bytes,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_host: bytes,
    size_max: int,
    count_max: int,
) -> tuple[int, int, int, list[int]] | None:
    """Append the messages of a batch body as it came off the wire, under ``log.lock``; None if plain code must look.

    As ``append_batch`` of the log: (queue offset, physical offset, store time, sizes of the records).
    """
    struct = PREFIX_BY_FAMILY[sys_flag >> 4 & 3]
    source = as_array(body)
    sizes = np.empty(len(body) // ITEM_OVERHEAD + 1, np.int64)
    count, total = measure_batch(source, struct.size + len(topic_prefix) + 2, sizes)
    if count > count_max:
        raise InvalidArgumentError(f"a batch of {count} messages, at most {count_max} are taken")
    if count <= 0 or total > size_max:
        return None

    def prefix(now: int) -> bytes:
        return struct.pack(
            0, magic, 0, queue_id, 0, 0, 0, sys_flag, born_timestamp, born_host, now, store_host, 0, 0, 0
        )

    def write(buffer: memoryview, at: int, base: int, head: bytes, topic: bytes, queue_offset: int) -> int:
        return append_batch(
            as_array(buffer),
            at,
            base,
            as_array(head),
            as_array(topic),
            queue_offset,
            source,
            total,
        )

    first_queue_offset, first_physical, now = log.append_columns(
        prefix, topic_prefix, queue_offsets, queue_id, total, write, count
    )
    return first_queue_offset, first_physical, now, sizes[:count].tolist()
