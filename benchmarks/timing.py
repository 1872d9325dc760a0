"""Percentiles of many short times, and whose processor time a run took."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]  # one run's figures by name, ready for JSON


def samples(count: int) -> array[int]:
    """Room for ``count`` times in nanoseconds: writing one into it allocates nothing."""
    return array("q", bytes(8 * count))


def percentiles(nanoseconds: Iterable[int]) -> Row:
    ordered = sorted(nanoseconds)
    if not ordered:
        return {}
    last = len(ordered) - 1
    row: Row = {"calls": len(ordered)}
    for name, share in (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)):
        row[name] = round(ordered[min(last, int(share * len(ordered)))] / 1000, 2)
    return row


class Processor:
    """Processor seconds from construction on: of this process, and of everything else on the machine."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._own = time.process_time()
        self._all = machine_seconds()

    def describe(self) -> Row:
        own = time.process_time() - self._own
        other = max(0.0, machine_seconds() - self._all - own)
        elapsed = max(time.monotonic() - self._began, 0.01)
        return {"cpu_s": round(own, 2), "cpu_other_s": round(other, 2), "other_cores": round(other / elapsed, 2)}


def machine_seconds() -> float:
    try:
        # "cpu user nice system idle iowait irq softirq steal ...", in clock ticks
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    busy = sum(map(int, fields)) - int(fields[3]) - int(fields[4])
    return float(busy / os.sysconf("SC_CLK_TCK"))
