"""The numbers every benchmark prints: what the machine is, how fast, and how long single calls took."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

from flaremq.cli.output import print_json


def machine() -> dict[str, Any]:
    """What a reader needs to know to compare."""
    from flaremq import __version__

    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "flaremq": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memoryBytes": pages * page,
    }


def print_report(name: str, settings: dict[str, Any], count: int, seconds: float, latencies_ns: Sequence[int]) -> None:
    """Rate and latency of ``count`` messages handled in ``seconds``, as JSON; ``settings`` has their ``bodySize``."""
    rate = count / seconds if seconds else 0.0
    result = {
        "benchmark": name,
        "settings": settings,
        "machine": machine(),
        "messages": count,
        "seconds": round(seconds, 4),
        "messagesPerSecond": round(rate, 1),
        "bodyBytesPerSecond": round(rate * settings["bodySize"]),
        "latencyMicros": latency_micros(latencies_ns),
    }
    print_json(result)


def latency_micros(latencies_ns: Sequence[int]) -> dict[str, float]:
    """p50, p99, p99.9 and the longest, by nearest rank."""
    ordered = sorted(latencies_ns)
    last = len(ordered) - 1

    def rank(share: float) -> float:
        return round(ordered[min(int(share * len(ordered)), last)] / 1000, 2) if ordered else 0.0

    return {"p50": rank(0.50), "p99": rank(0.99), "p99.9": rank(0.999), "max": rank(1.0)}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
