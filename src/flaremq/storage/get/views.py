"""A pull in one call of compiled code: views of the mapped log that go to the socket as they are."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence

from flaremq.storage.get.select import select_units
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.queue.consume_queue import UNIT, ConsumeQueue

_EVERYTHING = array("q")
_local = threading.local()  # the table of ranges, one a thread


def select_views(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    examined_max: int,
    max_count: int,
    max_bytes: int,
    codes: Sequence[int] | None,
) -> tuple[int, int, int, list[memoryview | bytes]] | None:
    """(next queue offset, records, bytes, views); None if plain code must decide about the first unit."""
    data = queue.read_units(offset, examined_max)
    if not data:
        return None
    file = log.files.find(UNIT.unpack_from(data)[0])
    buffer = None if file is None else file.borrow()
    if file is None or buffer is None:
        return None
    ranges = getattr(_local, "ranges", None)
    if ranges is None or len(ranges) < 2 * max_count:
        ranges = _local.ranges = array("q", bytes(16 * max(max_count, 64)))
    examined, records, size, runs = select_units(
        data,
        buffer,
        file.start,
        log.readable_offset,
        queue.queue_id,
        offset,
        max_count,
        max_bytes,
        _EVERYTHING if codes is None else array("q", codes),
        ranges,
    )
    if not examined:
        return None
    places = ranges[: 2 * runs].tolist()
    views: list[memoryview | bytes] = [buffer[places[at] : places[at + 1]] for at in range(0, 2 * runs, 2)]
    return offset + examined, records, size, views
