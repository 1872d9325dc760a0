"""RequestLatencies: how long requests took, from their arrival to their answer, by code, outcome and result."""

from __future__ import annotations

from typing import Final

from flaremq.metrics.bounded_table import SERIES_MAX, BoundedTable
from flaremq.metrics.histogram import Histogram
from flaremq.protocol.codes import RequestCode, ResponseCode

MS_BOUNDS: Final = (1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0)
_STRANGE_MAX: Final = 64  # codes that nobody knows, told one by one; anybody can make them up
_OTHER: Final = -1
_KNOWN: Final = frozenset(int(code) for code in RequestCode)

# Request code, response code, whether it waited for messages, what became of the answer.
Key = tuple[int, int, bool, str]


class RequestLatencies:
    """All requests of one broker. Event loop only."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self.table: BoundedTable[Key, Histogram] = BoundedTable(lambda: Histogram(MS_BOUNDS), series_max)
        self._strange: set[int] = set()
        # By code and result: those of compiled sends, which are most of all requests.
        self._sends: dict[tuple[int, str], Histogram] = {}

    def note_sends(self, code: int, result: str, seconds: float, count: int) -> None:
        """``note`` for sends of one read that compiled code has stored."""
        found = self._sends.get((code, result))
        if found is None:
            key = (int(code), int(ResponseCode.SUCCESS), False, result)
            found = self._sends[code, result] = self.table.made(key)
        found.observe(seconds * 1000, count)

    def note(self, code: int, response_code: int, result: str, is_held: bool, seconds: float, count: int = 1) -> None:
        """``count`` requests took so long."""
        found = self.table.get((code, response_code, is_held, result))
        if found is None:
            found = self.table.made((self._named(code), int(response_code), is_held, result))
        found.observe(seconds * 1000, count)

    def _named(self, code: int) -> int:
        code = int(code)
        if code in _KNOWN or code in self._strange:
            return code
        if len(self._strange) >= _STRANGE_MAX:
            return _OTHER
        self._strange.add(code)
        return code

    def by_response(self) -> dict[int, int]:
        """Requests by response code."""
        found: dict[int, int] = {}
        for (_, response_code, _, _), histogram in list(self.table.items()):
            found[response_code] = found.get(response_code, 0) + histogram.count
        return found
