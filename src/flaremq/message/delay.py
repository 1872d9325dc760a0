"""Delay levels: the option ``messageDelayLevel`` as a table.

A delayed message waits in queue ``level - 1`` of the schedule topic, and its queue unit carries the time it
is due instead of a tag hash. The due time is computed once, from the store time, so a changed table does not
move messages whose units exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNKNOWN_LEVEL_MS = 1_000


@dataclass(frozen=True, slots=True)
class DelayLevels:
    """``delays_ms[level - 1]`` is the delay of a level; levels count from 1."""

    delays_ms: tuple[int, ...]

    @property
    def level_max(self) -> int:
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """The level a message asking for ``level`` (> 0) really gets."""
        return min(level, self.level_max)

    def delay_ms(self, level: int) -> int:
        """Delay of a level; too high counts as the highest, an unknown one as a second."""
        level = min(level, self.level_max)
        return self.delays_ms[level - 1] if level > 0 else _UNKNOWN_LEVEL_MS

    def due_ms(self, level: int, store_timestamp: int) -> int:
        """When a message stored at ``store_timestamp`` is due: the tagsCode of its queue unit."""
        return store_timestamp + self.delay_ms(level)


def parse_delay_levels(text: str) -> DelayLevels:
    """The table for an option value such as ``1s 5s 10m``."""
    delays = []
    for word in text.split():
        number, unit = whole_number(word[:-1]), word[-1]
        if unit not in _UNIT_MS or number is None:
            raise InvalidArgumentError(f"messageDelayLevel {text!r}: {word!r} is not a number followed by s, m, h or d")
        delays.append(number * _UNIT_MS[unit])
    if not delays:
        raise InvalidArgumentError("messageDelayLevel is empty: at least one level is needed")
    return DelayLevels(tuple(delays))


def queue_id_of_level(level: int) -> int:
    return level - 1


def level_of_queue_id(queue_id: int) -> int:
    return queue_id + 1
