"""Records of a queue as one run of bytes, the form a pull answer has on the wire: one call for a whole batch.

Each record is compared with its unit (place, size, queue, queue offset); its checksum is left to whoever decodes it,
as RocketMQ does. Whatever this does not take (another log file, a unit to repair) goes through ``get``.
"""

from __future__ import annotations

import cython

from flaremq.storage.get.cursor import QueueCursor
from flaremq.storage.log.commit_log import CommitLog

if not cython.compiled:
    from flaremq.core.gather import copy_units
    from flaremq.core.memory import load_i32, load_i64, view_of

_UNIT_SIZE = 20
_BYTES_MAX = 256 * 1024


def copy_messages(
    log: CommitLog, cursor: QueueCursor, offset: int, max_count: int, max_bytes: int | None
) -> tuple[memoryview, int, int] | None:
    """(records, number of records, next queue offset); None if the plain path must decide."""
    units, first, count = cursor.read(offset, max_count)
    if not count:
        return None
    unit = view_of(units)
    size = load_i32(unit, first * _UNIT_SIZE + 8)
    file = log.files.find(load_i64(unit, first * _UNIT_SIZE))
    buffer = None if file is None else file.borrow()
    if file is None or buffer is None:
        return None
    room = max_bytes or _BYTES_MAX
    if room < size <= file.size:
        room = size  # the first record always fits
    queue_id = cursor.queue.queue_id
    end = log.readable_offset
    records, copied, examined = copy_units(units, first, count, buffer, file.start, end, queue_id, offset, room)
    return (memoryview(records), copied, offset + examined) if copied else None
