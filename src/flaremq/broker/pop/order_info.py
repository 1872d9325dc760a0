"""Ordered pops: which messages of a queue a group has been given, and until when the queue stays shut for it.

Order needs no check points. A group gets a batch from a queue and then nothing more from it until each message of the
batch is acknowledged or its invisible time is over; what is not acknowledged is read from the queue again. The
committed offset moves only by acknowledgements, so losing this table in a crash costs deliveries too many, never one
too few. It is kept in ``config/consumerOrderInfo.json``, in RocketMQ's form.

A client that repeats a request whose reply it missed sends the same attempt id and is let in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.broker.pop.check_point import QueueKey
from flaremq.broker.pop.receipts import order_count_info
from flaremq.digits import whole_number

_FORGET_MS: Final = 24 * 3600 * 1000
ILLEGAL: Final = -1
STALE: Final = -2


@dataclass(slots=True, eq=False)
class OrderInfo:
    """The batch a group was given last from a queue."""

    attempt_id: str | None
    pop_time: int
    invisible_time: int
    offsets: list[int]
    last_consumed: int
    committed: int = 0  # bit i: offsets[i] is acknowledged
    next_visible: dict[int, int] = field(default_factory=dict)  # by offset, where it differs from the batch's
    deliveries: dict[int, int] = field(default_factory=dict)  # by offset: how often it had been given before this batch
    scheduled: int = 0  # the opening that the heap knows of

    @property
    def next_offset(self) -> int:
        """The first offset that is not acknowledged."""
        for index, offset in enumerate(self.offsets):
            if not self.committed >> index & 1:
                return offset
        return self.offsets[-1] + 1

    @property
    def free_at(self) -> int:
        """When the queue opens if nothing more is acknowledged; 0 if it is open."""
        times = [
            self.next_visible.get(offset, self.pop_time + self.invisible_time)
            for index, offset in enumerate(self.offsets)
            if not self.committed >> index & 1
        ]
        return max(times, default=0)

    def to_document(self) -> dict[str, Any]:
        first = self.offsets[0]
        document: dict[str, Any] = {
            "cm": self.committed,
            "i": self.invisible_time,
            "l": self.last_consumed,
            "o": [first, *(offset - first for offset in self.offsets[1:])],
            "oc": dict(self.deliveries),
            "popTime": self.pop_time,
        }
        if self.next_visible:
            document["ot"] = dict(self.next_visible)
        if self.attempt_id is not None:
            document["a"] = self.attempt_id
        return document

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> OrderInfo | None:
        """The batch in a file; None if there is none in it."""
        try:
            first, *rest = (int(offset) for offset in document.get("o") or ())
            attempt_id = document.get("a")
            info = cls(
                None if attempt_id is None else str(attempt_id),
                int(document["popTime"]),
                int(document.get("i") or 0),
                [first, *(first + distance for distance in rest)],
                int(document.get("l") or 0),
                int(document.get("cm") or 0),
            )
            info.next_visible = {int(offset): int(at) for offset, at in (document.get("ot") or {}).items()}
            info.deliveries = {int(offset): int(count) for offset, count in (document.get("oc") or {}).items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        return info


class ConsumerOrderInfo:
    """The batches of all groups. Event loop only."""

    __slots__ = ("_free", "_table", "on_change")

    def __init__(self) -> None:
        self._table: dict[QueueKey, OrderInfo] = {}
        self._free: list[tuple[int, QueueKey]] = []  # heap: when a queue opens, to wake the polls that wait for it
        self.on_change: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._table)

    def update(
        self,
        key: QueueKey,
        *,
        attempt_id: str | None,
        pop_time: int,
        invisible_time: int,
        offsets: Sequence[int],
    ) -> list[str]:
        """A new batch was given; its parts of ``orderCountInfo``."""
        info = OrderInfo(attempt_id, pop_time, invisible_time, list(offsets), pop_time)
        before = self._table.get(key)
        if before is not None:
            if attempt_id is not None and before.attempt_id == attempt_id:
                info.deliveries = before.deliveries
            else:
                given = set(before.offsets)
                info.deliveries = {
                    offset: before.deliveries.get(offset, 0) + 1 for offset in offsets if offset in given
                }
        self._put(key, info)
        topic, _, queue_id = key
        least = min(info.deliveries.values(), default=0) if len(info.deliveries) == len(info.offsets) else 0
        return order_count_info(topic, queue_id, info.deliveries, least)

    def is_blocked(self, key: QueueKey, attempt_id: str | None, now_ms: int) -> bool:
        """Whether the group must wait with this queue."""
        info = self._table.get(key)
        if info is None or (attempt_id is not None and info.attempt_id == attempt_id):
            return False
        return info.free_at > now_ms

    def commit(self, key: QueueKey, offset: int, pop_time: int) -> int:
        """A message is acknowledged: the offset to commit, or ``ILLEGAL``, or ``STALE`` if the receipt is old."""
        info = self._table.get(key)
        if info is not None and info.pop_time != pop_time:
            return STALE
        # Without a batch nothing was given: the original commits whatever the receipt says.
        if info is None or offset not in info.offsets:
            return ILLEGAL
        info.committed |= 1 << info.offsets.index(offset)
        self._put(key, info)
        return info.next_offset

    def set_next_visible(self, key: QueueKey, offset: int, pop_time: int, next_visible: int) -> bool:
        """A message of the batch stays hidden until this time; False if the receipt is old."""
        info = self._table.get(key)
        if info is None or info.pop_time != pop_time or offset not in info.offsets:
            return False
        info.next_visible[offset] = next_visible
        self._put(key, info)
        return True

    def given_offsets(self, key: QueueKey) -> list[int]:
        """Offsets of the batch given last."""
        info = self._table.get(key)
        return [] if info is None else list(info.offsets)

    def clear(self, key: QueueKey) -> None:
        """Open the queue: the group was moved to another place in it."""
        if self._table.pop(key, None) is not None:
            self._changed()

    def set_back(self, back_ms: int) -> None:
        """The clock was set back: no queue stays closed for longer because of that."""
        for key, info in list(self._table.items()):
            usual = info.pop_time + info.invisible_time
            info.next_visible = {offset: info.next_visible.get(offset, usual) - back_ms for offset in info.offsets}
            self._put(key, info)

    def take_free(self, now_ms: int) -> list[QueueKey]:
        """Queues that have opened because time has passed."""
        found = []
        while self._free and self._free[0][0] <= now_ms:
            at, key = heapq.heappop(self._free)
            info = self._table.get(key)
            if info is not None and info.free_at == at:
                found.append(key)
        return found

    def forget(self, now_ms: int, is_wanted: Callable[[QueueKey], bool]) -> None:
        """Drop what nobody has used for a day, and what belongs to deleted topics and groups."""
        gone = [
            key for key, info in self._table.items() if now_ms - info.last_consumed > _FORGET_MS or not is_wanted(key)
        ]
        for key in gone:
            self.clear(key)

    # The file

    def to_document(self) -> dict[str, Any]:
        tables: dict[str, dict[int, Any]] = {}
        for (topic, group, queue_id), info in self._table.items():
            tables.setdefault(f"{topic}@{group}", {})[queue_id] = info.to_document()
        return {"table": tables}

    def load(self, document: Mapping[str, Any] | None) -> None:
        """Take over what a file held; entries that make no sense are left out."""
        table = (document or {}).get("table")
        for name, queues in table.items() if isinstance(table, dict) else ():
            topic, at, group = name.partition("@")
            for queue_text, entry in queues.items() if at and isinstance(queues, dict) else ():
                info = OrderInfo.of_document(entry) if isinstance(entry, dict) else None
                queue_id = whole_number(queue_text)
                if info is not None and queue_id is not None:
                    self._put((topic, group, queue_id), info)

    def _put(self, key: QueueKey, info: OrderInfo) -> None:
        self._table[key] = info
        free_at = info.free_at
        if free_at and free_at != info.scheduled:
            info.scheduled = free_at
            heapq.heappush(self._free, (free_at, key))
            if len(self._free) > 4 * len(self._table) + 64:  # mostly openings that acknowledgements made obsolete
                self._free = [(entry.free_at, other) for other, entry in self._table.items() if entry.free_at]
                heapq.heapify(self._free)
        self._changed()

    def _changed(self) -> None:
        for callback in self.on_change:
            callback()
