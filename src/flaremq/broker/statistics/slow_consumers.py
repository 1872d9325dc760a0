"""Protection from slow consumers: how far each group's reading is behind, and switching off who is too far.

A group that reads far behind the end of the log reads from disk and takes the page cache away from everybody else.
With ``disableConsumeIfConsumerReadSlowly`` such a group is switched off until an administrator switches it on again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.options import BrokerOptions

_log = logging.getLogger(__name__)


ITEMS_MAX: Final = 65_536


class FallBehind:
    """How far each group's reading is behind the end of the log: the last value counts, not a sum."""

    __slots__ = ("sizes", "times")

    def __init__(self) -> None:
        self.sizes: dict[tuple[str, int, str], int] = {}
        self.times: dict[tuple[str, int, str], int] = {}

    def note_size(self, group: str, topic: str, queue_id: int, behind_bytes: int) -> None:
        """Bytes of log after the message a group was last given (GROUP_GET_FALL_SIZE)."""
        self._note(self.sizes, (topic, queue_id, group), behind_bytes)

    def note_time(self, group: str, topic: str, queue_id: int, behind_ms: int) -> None:
        """Milliseconds since that message was stored (GROUP_GET_FALL_TIME)."""
        self._note(self.times, (topic, queue_id, group), behind_ms)

    def _note(self, table: dict[tuple[str, int, str], int], key: tuple[str, int, str], value: int) -> None:
        if len(table) < ITEMS_MAX or key in table:
            table[key] = value

    def note_caught_up(self, group: str, topic: str, queue_id: int) -> None:
        """The group reads what is in memory: whatever it was behind, it no longer is."""
        key = (topic, queue_id, group)
        if key in self.sizes:
            self.sizes[key] = self.times[key] = 0

    def groups_behind(self, threshold_bytes: int) -> dict[str, int]:
        """Groups with a queue further behind than the threshold, and by how much."""
        result: dict[str, int] = {}
        for (_, _, group), behind in self.sizes.items():
            if behind > threshold_bytes:
                result[group] = max(behind, result.get(group, 0))
        return result

    def forget(self, is_gone: Callable[[str, str], bool]) -> None:
        for table in (self.sizes, self.times):
            for key in [key for key in table if is_gone(key[0], key[2])]:
                del table[key]


class SlowConsumerProtection:
    """Switches off groups that are too far behind. Event loop thread only."""

    __slots__ = ("_behind", "_groups", "_options")

    def __init__(self, options: BrokerOptions, behind: FallBehind, groups: GroupTable) -> None:
        self._options = options
        self._behind = behind
        self._groups = groups

    def tick(self) -> list[str]:
        """Look once; the groups that were switched off. RocketMQ looks every three minutes."""
        if not self._options.disable_consume_if_consumer_read_slowly:
            return []
        disabled = []
        for group, behind in self._behind.groups_behind(self._options.consumer_fallbehind_threshold).items():
            config = self._groups.all().get(group)
            if config is not None and config.consume_enable:
                _log.warning("group %s is %d bytes behind and is switched off", group, behind)
                self._groups.disable_consume(group)
                disabled.append(group)
        return disabled
