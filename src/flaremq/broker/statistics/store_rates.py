"""StoreRates: messages a second in and out over 10 seconds, a minute and ten minutes, and how long puts took.

Sampled once a second from counters that exist anyway. A broker younger than a window answers for its whole life.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

_SAMPLES_MAX: Final = 601
_WINDOWS_SECONDS: Final = (10, 60, 600)
_MINUTE_MS: Final = 60_000

# Upper bounds of the store's latency buckets in milliseconds, in their order; the last bucket has none.
_BUCKET_ENDS_MS: Final = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)


class Counters(NamedTuple):
    """Totals since the start."""

    put: int = 0
    get_found: int = 0
    get_miss: int = 0
    get_transferred: int = 0


class StoreRates:
    """Samples of a store's counters. Event loop thread only."""

    def __init__(self, now_ms: int, counters: Counters, latencies: dict[str, int]) -> None:
        self._samples: deque[tuple[int, Counters]] = deque([(now_ms, counters)], maxlen=_SAMPLES_MAX)
        self._latencies_since = now_ms
        self._latencies_before = dict(latencies)
        self._latencies: dict[str, int] | None = None  # of the last full minute

    def tick(self, now_ms: int, counters: Counters, latencies: dict[str, int]) -> None:
        """Take a sample; call it once a second."""
        if now_ms < self._samples[-1][0]:
            self._samples.clear()  # the clock was set back: nothing before can be compared
        self._samples.append((now_ms, counters))
        if not 0 <= now_ms - self._latencies_since < _MINUTE_MS:
            self._latencies = self._since_before(latencies)
            self._latencies_before = dict(latencies)
            self._latencies_since = now_ms

    def tps(self, name: str) -> str:
        """Three numbers as RocketMQ prints them: over 10 seconds, a minute, ten minutes."""
        column = Counters._fields.index(name)
        return " ".join(str(self._rate(column, seconds)) for seconds in _WINDOWS_SECONDS)

    def total_get_tps(self) -> str:
        """Pulls a second, with and without messages."""
        columns = (Counters._fields.index("get_found"), Counters._fields.index("get_miss"))
        return " ".join(str(sum(self._rate(column, seconds) for column in columns)) for seconds in _WINDOWS_SECONDS)

    def _rate(self, column: int, seconds: int) -> float:
        last_ms, last = self._samples[-1]
        first_ms, first = self._samples[max(0, len(self._samples) - 1 - seconds)]
        elapsed_ms = last_ms - first_ms
        return (last[column] - first[column]) * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0

    # Latencies

    def latencies(self, now: dict[str, int]) -> dict[str, int]:
        """Puts by latency in the last full minute; before that, since the start."""
        return self._since_before(now) if self._latencies is None else dict(self._latencies)

    def latency_ms(self, share: float, now: dict[str, int]) -> float:
        """The time within which this share of puts was done, as finely as the buckets tell."""
        counts = list(self.latencies(now).values())
        wanted = int(sum(counts) * share)
        passed = 0
        for index, count in enumerate(counts):
            if count and wanted <= passed + count:
                begin = _BUCKET_ENDS_MS[index - 1] if index else 0
                end = _BUCKET_ENDS_MS[min(index, len(_BUCKET_ENDS_MS) - 1)]
                return begin + (end - begin) * (wanted - passed) / count
            passed += count
        return 0.0

    def _since_before(self, now: dict[str, int]) -> dict[str, int]:
        return {bucket: count - self._latencies_before.get(bucket, 0) for bucket, count in now.items()}
