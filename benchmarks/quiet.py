"""Whether a machine was quiet: its load before a part begins, and what others used while it ran.

The load average before the first part is somebody else's. Before later parts it is still ours, so there what counts is
how busy the processors are in two seconds in which nothing of ours runs. While a part runs, processor time that
belongs neither to this process nor to anything below it is somebody else's.
"""

from __future__ import annotations

import os
import threading
import time

from benchmarks.process_tree import Load
from benchmarks.timing import Row

LOAD_MAX = 0.5  # load average before anything was started
CORES_MAX = 0.3  # used by others, before or on average
_LOOK_S = 2.0
_SAMPLE_S = 5.0


class Watch:
    """From before a part begins until ``close``."""

    def __init__(self, *, is_first: bool, look_seconds: float = _LOOK_S) -> None:
        self._is_first = is_first
        self._before = [round(value, 2) for value in os.getloadavg()]
        idle = Load([os.getpid()])
        time.sleep(look_seconds)
        self._cores_before = float(idle.describe()["other_cores"])
        self._began = time.monotonic()
        self._whole = Load([os.getpid()])
        self._loads: list[float] = []
        self._cores: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> Row:
        self._stop.set()
        self._thread.join()
        whole = self._whole.describe()
        return describe(
            load_before=self._before,
            cores_before=self._cores_before,
            is_first=self._is_first,
            load_during=self._loads,
            cores_during=self._cores,
            cores_mean=float(whole["other_cores"]),
        )

    def _watch(self) -> None:
        window = Load([os.getpid()])
        while not self._stop.wait(_SAMPLE_S):
            self._loads.append(round(os.getloadavg()[0], 2))
            self._cores.append(float(window.describe()["other_cores"]))
            window = Load([os.getpid()])


def describe(
    *,
    load_before: list[float],
    cores_before: float,
    is_first: bool,
    load_during: list[float],
    cores_during: list[float],
    cores_mean: float,
) -> Row:
    """For the result, with the reasons why the part does not count as measured alone."""
    reasons = []
    if is_first and load_before[0] > LOAD_MAX:
        reasons.append(f"the load average was {load_before[0]:.2f} before the start")
    if cores_before > CORES_MAX:
        reasons.append(f"others used {cores_before:.1f} cores before the start")
    if cores_mean > CORES_MAX:
        reasons.append(f"others used {cores_mean:.1f} cores meanwhile")
    return {
        "load_average_before": load_before,
        "other_cores_before": cores_before,
        "load_average_during": load_during,
        "other_cores_during": cores_during,
        "other_cores_mean": cores_mean,
        "is_loaded": bool(reasons),
        "reasons": reasons,
    }
