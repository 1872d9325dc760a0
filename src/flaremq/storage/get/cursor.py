"""Units read ahead for those who read a queue from offset to offset: one read of the file serves many calls."""

from __future__ import annotations

from flaremq.storage.queue.consume_queue import ConsumeQueue

_UNIT_SIZE = 20
_AHEAD_UNITS = 1024  # 20 KB
_CURSORS_MAX = 64


class QueueCursor:
    """Where one queue was read last. Any thread: what is kept is replaced as a whole."""

    __slots__ = ("_kept", "_next", "queue")

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self._kept: tuple[int, int, bytes] = (0, 0, b"")  # changes of the queue, queue offset of the first unit, units
        self._next = -1  # the offset that was not read yet; who asks for it will go on

    def read(self, offset: int, count: int) -> tuple[bytes, int, int]:
        """``(units, number of the unit of this offset among them, how many to use)``; 0 to use if there are none.

        As ``ConsumeQueue.read_units``: at most ``count``, to the end of the queue file and of the queue.
        """
        queue = self.queue
        changes, start, units = self._kept
        first, end = offset - start, len(units) // _UNIT_SIZE
        if first < 0 or first + count > end or changes != queue.changes:
            changes = queue.changes  # before the units: one put right meanwhile is then read again
            units = queue.read_units(offset, max(count, _AHEAD_UNITS) if offset == self._next else count)
            self._kept = changes, offset, units
            first, end = 0, len(units) // _UNIT_SIZE
        used = min(count, end - first)
        self._next = offset + used
        return units, first, used


class QueueCursors:
    """The cursors of the queues that were read last."""

    __slots__ = ("_cursors",)

    def __init__(self) -> None:
        self._cursors: dict[ConsumeQueue, QueueCursor] = {}

    def of(self, queue: ConsumeQueue) -> QueueCursor:
        cursor = self._cursors.get(queue)
        if cursor is None:
            if len(self._cursors) >= _CURSORS_MAX:
                self._cursors = {}
            cursor = self._cursors[queue] = QueueCursor(queue)
        return cursor
