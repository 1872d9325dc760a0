"""Memory and processor time of a process and everything below it, as Linux tells it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.timing import Row, machine_seconds

_SAMPLE_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


class WorkerMemory:
    """The most that any Python process below this one held while it was looked at."""

    def __init__(self) -> None:
        self._peak = 0
        self._anonymous = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> Row:
        self._stop.set()
        self._thread.join()
        return {"worker_MB": round(self._peak / 1e6, 1), "worker_anonymous_MB": round(self._anonymous / 1e6, 1)}

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            resident, anonymous = largest_worker(os.getpid())
            self._peak = max(self._peak, resident)
            self._anonymous = max(self._anonymous, anonymous)


class Load:
    """Processor seconds from construction on: of these process trees, and of everything else on the machine."""

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = roots
        self._began, self._own, self._all = time.monotonic(), self._seconds(), machine_seconds()

    def describe(self) -> Row:
        own = self._seconds() - self._own
        other = max(0.0, machine_seconds() - self._all - own)
        elapsed = max(time.monotonic() - self._began, 0.01)
        return {"cpu_s": round(own, 2), "cpu_other_s": round(other, 2), "other_cores": round(other / elapsed, 2)}

    def _seconds(self) -> float:
        processes = _processes()
        return sum(processes[pid][2] for pid in _below(processes, self._roots))


def largest_worker(root: int) -> tuple[int, int]:
    """Resident and anonymous bytes now, the most of each that a Python process below ``root`` has.

    A process is told by the program it runs, not by its name: what a JVM starts is for a moment the JVM itself, with
    all its memory, under the name of the thread that asked for it.
    """
    workers = [pid for pid in _below(_processes(), [root]) if pid != root and _is_python(pid)]
    held = [_resident(pid) for pid in workers]
    return max((each[0] for each in held), default=0), max((each[1] for each in held), default=0)


def processor_seconds(pid: int) -> float:
    """What a process has used so far, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _processes() -> dict[int, tuple[str, int, float]]:
    """Name, parent and processor seconds (with those of children that ended) by process."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        found[int(name)] = (head.partition("(")[2], int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    return found


def _below(processes: dict[int, tuple[str, int, float]], roots: Iterable[int]) -> list[int]:
    """The roots themselves and all their descendants."""
    tops = set(roots)
    found = []
    for pid in processes:
        above = pid
        while above in processes and above not in tops:
            above = processes[above][1]
        if above in tops:
            found.append(pid)
    return found


def _is_python(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
    except OSError:
        return False


def _resident(pid: int) -> tuple[int, int]:
    values = {"VmRSS": 0, "RssAnon": 0}
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in values:
                    values[name] = 1024 * int(value.split()[0])
    except OSError:
        pass
    return values["VmRSS"], values["RssAnon"]
