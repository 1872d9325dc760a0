"""Family: one metric, as the catalogues of the servers list them.

RocketMQ's names come in two fashions. Its documentation has the bare names of the instruments
(``rocketmq_rpc_latency``). What a broker of 5.5 serves has the unit behind them, in whole words
(``rocketmq_rpc_latency_milliseconds``). Where both are asked for, a family with a unit is told twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Names(Enum):
    """Which fashion of names."""

    WITH_UNIT = "5.5"
    BARE = "5.3"
    BOTH = "both"


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One metric; equal to no other. ``labels`` in alphabetical order; those of all samples of a server come on top."""

    name: str  # of the instrument, with neither unit nor ``_total``
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    bounds: tuple[float, ...] = ()
    constant: tuple[tuple[str, str], ...] = ()  # labels with one value
    switch: str = ""  # the option that leaves it out

    def names(self, names: Names) -> tuple[str, ...]:
        """What it is called, without ``_total``."""
        bare = self.name
        with_unit = bare if not self.unit or bare.endswith(f"_{self.unit}") else f"{bare}_{self.unit}"
        if names is Names.BARE:
            return (bare,)
        return (with_unit,) if names is Names.WITH_UNIT or with_unit == bare else (with_unit, bare)

    def told_names(self, name: str) -> tuple[str, ...]:
        """All names by which somebody may ask for the family called ``name``."""
        if self.kind is Kind.COUNTER:
            return (name, f"{name}_total")
        if self.kind is Kind.HISTOGRAM:
            return (name, f"{name}_bucket", f"{name}_count", f"{name}_sum")
        return (name,)


def gauge(name: str, help: str, labels: str = "", **more: object) -> Family:
    return Family(name, Kind.GAUGE, help, tuple(labels.split()), **more)  # type: ignore[arg-type]  # fields of Family


def counter(name: str, help: str, labels: str = "", **more: object) -> Family:
    return Family(name, Kind.COUNTER, help, tuple(labels.split()), **more)  # type: ignore[arg-type]


def histogram(name: str, help: str, labels: str = "", **more: object) -> Family:
    return Family(name, Kind.HISTOGRAM, help, tuple(labels.split()), **more)  # type: ignore[arg-type]
