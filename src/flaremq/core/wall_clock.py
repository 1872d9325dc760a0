"""The wall clock of the machine; compiled modules read it without a call into Python."""

from __future__ import annotations

from time import time_ns


def wall_clock_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time_ns() // 1_000_000
