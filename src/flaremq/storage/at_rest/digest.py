"""SHA-256 over stretches of a store, as the bytes stand there: what a certificate is made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from flaremq.storage.at_rest.queues import StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.queue.consume_queue import UNIT

DIGEST = "sha256"  # with the processor's own instructions about as fast as memory can be copied
_WINDOW = 1 << 18  # stays in the processor's cache between reading and hashing


def hash_log(reader: StoreReader, start: int, marks: Iterable[int]) -> dict[int, str]:
    """The digest of the log's [start, mark) for each mark; none for a mark that files do not reach without a gap."""
    digest = hashlib.sha256()
    found: dict[int, str] = {}
    position = start
    for mark in sorted(set(marks)):
        while position < mark:
            data = reader.log.read(position, min(_WINDOW, mark - position))
            if not data:
                return found
            digest.update(data)
            position += len(data)
        found[mark] = digest.hexdigest()
    return found


def hash_units(queue: StoredQueue, first: int, end: int) -> str | None:
    """The digest of the units [first, end); None if files do not hold them all."""
    digest = hashlib.sha256()
    step = _WINDOW // UNIT.size
    for begin in range(first, end, step):
        count = min(step, end - begin)
        data = queue.read_raw(begin, count)
        if len(data) != count * UNIT.size:
            return None
        digest.update(data)
    return digest.hexdigest()
