"""From the moment a message was due until the driver holds its bytes: a micro-batch query with the default trigger."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import Row

_DIGITS = 19  # a body begins with the nanosecond it was due at
_IDLE_S = 2.0


class LatencyQuery:
    """``foreachBatch`` with a ``collect``: the same on both sides, whatever the source."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._folder = folder
        self._query: Any = None
        self._seen: list[tuple[int, int]] = []

    def start(self, stream: Any) -> None:
        """``stream`` has one column, the body. Returns when the query waits for rows."""
        shutil.rmtree(self._folder, ignore_errors=True)
        seen: list[tuple[int, int]] = []
        self._seen = seen

        def note(batch: Any, _number: int) -> None:
            bodies = batch.collect()
            now = time.time_ns()
            seen.extend((now, int(bytes(row[0][:_DIGITS]))) for row in bodies)

        writer = stream.writeStream.option("checkpointLocation", str(self._folder))
        self._query = writer.foreachBatch(note).start()
        deadline = time.monotonic() + 60
        while not self._query.status["message"].startswith("Waiting for data") and time.monotonic() < deadline:
            if self._query.exception() is not None:
                raise RuntimeError(str(self._query.exception()))
            time.sleep(0.1)
        time.sleep(_IDLE_S)

    def stop(self, skip_seconds: float, expected: int) -> Row:
        """Percentiles over what was due ``skip_seconds`` or more after the first one."""
        deadline = time.monotonic() + 20
        while len(self._seen) < expected and time.monotonic() < deadline and self._query.exception() is None:
            time.sleep(0.1)
        if self._query.exception() is not None:
            raise RuntimeError(str(self._query.exception())[:1500])
        progress = [each for each in self._query.recentProgress if each["numInputRows"]]
        self._query.stop()
        if len(self._seen) != expected:
            raise RuntimeError(f"{expected} messages were sent and {len(self._seen)} arrived")
        first = min(due for _, due in self._seen)
        taken = sorted((now - due) / 1e6 for now, due in self._seen if due >= first + skip_seconds * 1e9)
        durations = sorted(each["batchDuration"] for each in progress)
        return {
            "messages": len(taken),
            "p50_ms": round(taken[len(taken) // 2], 1),
            "p99_ms": round(taken[int(len(taken) * 0.99)], 1),
            "batches": len(progress),
            "batch_p50_ms": durations[len(durations) // 2],
            "phases": _phases(progress),
        }


def _phases(progress: list[Any]) -> Row:
    """Where a batch's time goes, the median of each phase."""
    names = {name for each in progress for name in each["durationMs"]}
    values = {name: sorted(each["durationMs"].get(name, 0) for each in progress) for name in sorted(names)}
    return {name: each[len(each) // 2] for name, each in values.items()}
