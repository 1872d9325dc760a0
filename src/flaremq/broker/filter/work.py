"""FilterWork: one pull's share of evaluating a property filter.

An expression and the messages it is applied to are both chosen by clients, so what one pull may cost is counted, not
hoped for: every message costs its properties once for reading them and once more for each comparison of the filter. A
pull whose work is used up ends before the next message, which the one after it begins with; the first message is
always looked at, so each pull comes forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from flaremq.broker.pace import Pace

WORK_MAX: Final = 16 << 20  # bytes of properties looked at by one pull; about 40 ms at the slowest comparison
MESSAGE_WORK: Final = 4096  # what reading a record costs, in the same unit


class FilterWork:
    """Asks a filter about one message after the other: whether it matches, or None once the work is used up."""

    __slots__ = ("_comparisons", "_left", "_matches", "_pace")

    def __init__(self, matches: Callable[[Mapping[str, str]], bool], comparisons: int) -> None:
        self._matches = matches
        self._comparisons = comparisons
        self._left = WORK_MAX
        self._pace = Pace()

    def __call__(self, properties: Mapping[str, str]) -> bool | None:
        if self._left <= 0:
            return None
        self._pace.step()
        self._left -= MESSAGE_WORK + sum(map(len, properties.values())) * (1 + self._comparisons)
        return self._matches(properties)
