"""Pull: what a consumer's pull is answered with, as bytes of the log rather than as messages.

The answer is a list of views into the mapped log, ready for a gathered write; adjoining records are one view. A pull is
one call of compiled code; without it, and for filters over properties, records are decoded one by one. Both check every
record against its unit and its checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flaremq.storage.get import select
from flaremq.storage.get.reader import MessageReader
from flaremq.storage.get.views import select_views
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.consume_queue import UNIT
from flaremq.storage.queue.table import ConsumeQueues
from flaremq.storage.status import GetMessageStatus

PropertiesFilter = Callable[[Mapping[str, str]], bool | None]  # None: look no further, begin here next time
_FOUND = GetMessageStatus.FOUND
_PLAIN_EXAMINED_MAX = 800  # records plain code decodes for one pull, whatever maxFilterMessageSize says


class PullResult:
    """What a pull found. ``views`` are valid as long as somebody holds them, even if their file is deleted."""

    __slots__ = ("count", "max_offset", "min_offset", "next_offset", "size", "status", "views")

    def __init__(
        self,
        status: GetMessageStatus,
        next_offset: int,
        min_offset: int,
        max_offset: int,
        views: list[memoryview | bytes],
        count: int = 0,
        size: int = 0,
    ) -> None:
        self.status = status
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.views = views
        self.count = count
        self.size = size


class Puller:
    """Pulls from one store. Any thread."""

    __slots__ = ("_log", "_options", "_queues", "_reader")

    def __init__(self, log: CommitLog, queues: ConsumeQueues, reader: MessageReader, options: StoreOptions) -> None:
        self._log = log
        self._queues = queues
        self._reader = reader
        self._options = options

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether the record at a queue offset is likely not in memory: reading it may wait for the disk."""
        log = self._log
        if log.end_offset - log.min_offset <= self._reader.memory_bytes:
            return False
        queue = self._queues.simple.get((topic, queue_id))
        unit = None if queue is None else queue.unit(offset)
        return unit is not None and unit[0] < log.end_offset - self._reader.memory_bytes

    def bytes_behind(self, topic: str, queue_id: int, offset: int) -> int:
        """Log bytes between the record at a queue offset and the end of the log."""
        queue = self._queues.simple.get((topic, queue_id))
        unit = None if queue is None else queue.unit(offset)
        return 0 if unit is None else max(0, self._log.end_offset - unit[0])

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        codes: Sequence[int] | None = None,
        matches: PropertiesFilter | None = None,
    ) -> PullResult:
        """Records from a queue offset on: with one of the tag hashes ``codes``, or whose properties match."""
        queue = self._queues.simple.get((topic, queue_id))
        if queue is not None and matches is None and select.IS_COMPILED:
            low, high = queue.min_offset, queue.end
            if low <= offset < high:
                options = self._options
                examined = max_count
                if codes is not None:
                    examined = max(options.max_filter_message_size // UNIT.size, max_count)
                found = select_views(self._log, queue, offset, examined, max_count, max_bytes, codes)
                if found is not None:
                    next_offset, count, size, views = found
                    if count or codes is not None:
                        status = _FOUND if count else GetMessageStatus.NO_MATCHED_MESSAGE
                        return PullResult(status, next_offset, low, high, views, count, size)
        return self._pull_plainly(topic, queue_id, offset, max_count, max_bytes, codes, matches)

    def _pull_plainly(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        codes: Sequence[int] | None,
        matches: PropertiesFilter | None,
    ) -> PullResult:
        wanted = None if codes is None else {code & 0xFFFFFFFF for code in codes}
        examined_max = max(self._options.max_filter_message_size // UNIT.size, max_count)
        if matches is None:
            examined_max = min(examined_max, max(_PLAIN_EXAMINED_MAX, max_count))
        views: list[memoryview | bytes] = []
        count = size = 0
        start = offset
        while True:
            found = self._reader.get(topic, queue_id, offset, max_count, None, max_bytes)
            if found.status is not _FOUND:
                break
            for message in found.messages:
                if wanted is not None and not self._has_code(message.properties, wanted):
                    continue
                verdict = True if matches is None else matches(message.properties)
                if verdict is None:
                    status = _FOUND if views else GetMessageStatus.NO_MATCHED_MESSAGE
                    return PullResult(
                        status, message.queue_offset, found.min_offset, found.max_offset, views, count, size
                    )
                if not verdict:
                    continue
                record = message.record
                if views and (count >= max_count or size + len(record) > max_bytes):
                    return PullResult(
                        _FOUND, message.queue_offset, found.min_offset, found.max_offset, views, count, size
                    )
                views.append(record)
                count += 1
                size += len(record)
            offset = found.next_offset
            unfiltered = wanted is None and matches is None
            if unfiltered or count >= max_count or offset - start >= examined_max or offset >= found.max_offset:
                break
        if views:
            return PullResult(_FOUND, offset, found.min_offset, found.max_offset, views, count, size)
        if offset > start:
            status = GetMessageStatus.NO_MATCHED_MESSAGE
            return PullResult(status, offset, found.min_offset, found.max_offset, views)
        return PullResult(found.status, found.next_offset, found.min_offset, found.max_offset, views)

    @staticmethod
    def _has_code(properties: Mapping[str, str], wanted: set[int]) -> bool:
        from flaremq.message.java_hash import tags_code

        # As in its unit: no tags have the hash 0. The consumer compares the text.
        return tags_code(properties.get("TAGS") or "") & 0xFFFFFFFF in wanted
