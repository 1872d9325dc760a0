"""Records of a queue as one run of bytes, the form a pull answer has on the wire: one call for a whole batch.

Each record is compared with its unit (place, size, queue, queue offset); its checksum is left to whoever decodes it,
as RocketMQ does. Whatever it does not take (another log file, a unit to repair) goes through ``get``.
"""

from __future__ import annotations

from flaremq.core.gather import copy_units
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.queue.consume_queue import UNIT, ConsumeQueue

_BYTES_MAX = 256 * 1024


def copy_messages(
    log: CommitLog, queue: ConsumeQueue, offset: int, max_count: int, max_bytes: int | None
) -> tuple[memoryview, int, int] | None:
    """(records, number of records, next queue offset); None if the plain path must decide."""
    data = queue.read_units(offset, max_count)
    if not data:
        return None
    first = UNIT.unpack_from(data)
    file = log.files.find(first[0])
    records_of = None if file is None else file.borrow()
    if file is None or records_of is None:
        return None
    out = bytearray(max(max_bytes or _BYTES_MAX, first[1] if 0 < first[1] <= file.size else 0))
    examined, records, size = copy_units(
        data,
        records_of,
        file.start,
        log.readable_offset,
        queue.queue_id,
        offset,
        max_count,
        out,
    )
    if not records:
        return None
    return memoryview(out)[:size], records, offset + examined
