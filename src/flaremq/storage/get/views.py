"""A pull in one kernel call: views of the mapped log that go to the socket as they are."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from flaremq.storage.kernels import preload  # noqa: F401  # batches and pulls use kernels once all are loaded
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.kernels.pull import select_units
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.queue.consume_queue import UNIT, ConsumeQueue

_EVERYTHING = np.empty(0, np.int64)
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
        ranges = _local.ranges = np.empty(2 * max(max_count, 64), np.int64)
    examined, records, size, runs = select_units(
        as_array(data),
        as_array(buffer),
        file.start,
        log.readable_offset,
        queue.queue_id,
        offset,
        max_count,
        max_bytes,
        _EVERYTHING if codes is None else np.array(codes, np.int64),
        ranges,
    )
    if not examined:
        return None
    places = ranges[: 2 * runs].tolist()
    views: list[memoryview | bytes] = [buffer[places[at] : places[at + 1]] for at in range(0, 2 * runs, 2)]
    return offset + examined, records, size, views
