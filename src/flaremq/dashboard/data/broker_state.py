"""BrokerState: one broker, master or slave, as it told about itself; rates and a short history."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.dashboard.data.ring import Meter, Ring

HISTORY_STEP_MS: Final = 1000
HISTORY_LENGTH: Final = 900
_GROWTH_SECONDS: Final = 900.0
_UNITS: Final = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5, "EiB": 6}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGTPE]?i?B)")
_SIZES: Final = re.compile(r"(Total|Free) : ([0-9.]+ ?[KMGTPE]?i?B)")
_DAY_PARTS: Final = re.compile(r"(\d+) (day|hour|minute|second)s?")
_PART_MS: Final = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}
_COUNTERS: Final = {"in": "msgPutTotalTodayNow", "out": "msgGetTotalTodayNow", "in_bytes": "commitLogMaxOffset"}


def bytes_of(text: str) -> int | None:
    """A size as brokers write it, ``3.6 KiB``; None if it is none."""
    found = _SIZE.match(text)
    return None if found is None else round(float(found[1]) * 1024 ** _UNITS.get(found[2], 0))


def history_ring() -> Ring:
    return Ring(HISTORY_STEP_MS, HISTORY_LENGTH)


@dataclass(slots=True, eq=False)
class BrokerState:
    """Kept by the sampler; views read it."""

    name: str
    cluster: str
    broker_id: int
    address: str
    is_up: bool = False
    error: str = ""
    reason: str = "not_read_yet"  # why nothing is known, if nothing is
    told: Mapping[str, str] = field(default_factory=dict)  # the broker's runtime information
    told_ms: int = 0
    config: Mapping[str, str] | None = None
    config_ms: int = 0
    ha: Any = None
    meters: dict[str, Meter] = field(default_factory=lambda: {name: Meter(2.5) for name in _COUNTERS})
    growth: Meter = field(default_factory=lambda: Meter(_GROWTH_SECONDS))
    rings: dict[str, Ring] = field(
        default_factory=lambda: {name: history_ring() for name in ("in", "out", "in_bytes", "put_p99", "disk")}
    )

    @property
    def is_master(self) -> bool:
        return self.broker_id == 0

    def take(self, told: Mapping[str, str], now_ms: int, seconds: float) -> None:
        """A fresh answer of the broker."""
        self.is_up, self.error, self.reason = True, "", ""
        if told.get("bootTimestamp") != self.told.get("bootTimestamp"):
            for meter in (*self.meters.values(), self.growth):
                meter.forget()
        self.told, self.told_ms = told, now_ms
        for name, key in _COUNTERS.items():
            total = self.number(key)
            if total is not None:
                self.meters[name].note(seconds, total)
        if (end := self.number("commitLogMaxOffset")) is not None:
            self.growth.note(seconds, end)
        for name in ("in", "out", "in_bytes"):
            self.rings[name].note(now_ms, self.meters[name].per_second)
        self.rings["put_p99"].note(now_ms, self.put_p99_ms)
        self.rings["disk"].note(now_ms, self.disk_used_ratio)

    def miss(self, reason: str, error: str) -> None:
        """The broker did not answer."""
        self.is_up, self.reason, self.error = False, reason, error
        for meter in (*self.meters.values(), self.growth):
            meter.forget()

    # What it tells, as numbers

    def number(self, key: str) -> float | None:
        try:
            return float(self.told[key].split(" ")[0])
        except (KeyError, ValueError):
            return None

    def whole(self, key: str) -> int | None:
        try:
            return int(self.told[key])
        except (KeyError, ValueError):
            return None

    @property
    def rates(self) -> dict[str, float | None]:
        """``in`` and ``out`` messages and ``in_bytes`` a second; what it says itself before there are two readings."""
        found = {name: meter.per_second if self.is_up else None for name, meter in self.meters.items()}
        for name, key in (("in", "putTps"), ("out", "getTransferredTps")):
            if found[name] is None and self.is_up:
                found[name] = self.number(key)
        return found

    @property
    def put_p99_ms(self) -> float | None:
        return self.number("putLatency99")

    @property
    def disk_used_ratio(self) -> float | None:
        ratio = self.number("commitLogDiskRatio")
        return None if ratio is None or ratio < 0 else ratio

    @property
    def disk_bytes(self) -> tuple[int | None, int | None]:
        """All of the disk, and what is free; rounded by the broker."""
        found = {name: bytes_of(size) for name, size in _SIZES.findall(self.told.get("commitLogDirCapacity", ""))}
        return found.get("Total"), found.get("Free")

    @property
    def disk_full_hours(self) -> float | None:
        """At the rate of the last quarter of an hour; None if nothing grows or the size is not told."""
        rate, (_, free) = self.growth.per_second, self.disk_bytes
        return None if free is None or not rate or rate <= 0 else round(free / rate / 3600, 2)

    @property
    def uptime_ms(self) -> int | None:
        parts = _DAY_PARTS.findall(self.told.get("runtime", ""))
        return sum(int(count) * _PART_MS[unit] for count, unit in parts) if parts else None

    @property
    def is_writable(self) -> bool | None:
        """Whether it takes messages: a master whose permission has the write bit."""
        if not self.is_master:
            return False
        if self.config is None:
            return None
        try:
            return bool(int(self.config.get("brokerPermission", "6")) & 2)
        except ValueError:
            return None

    @property
    def role(self) -> str:
        told = self.told.get("brokerRole") or (self.config or {}).get("brokerRole")
        return "master" if self.is_master and told in (None, "ASYNC_MASTER") else str(told or "slave").lower()
