"""The names of all metrics of a broker, as Prometheus has them."""

from __future__ import annotations

import re

from flaremq.broker.metrics.catalogue import CATALOGUE
from flaremq.metrics.family import Kind, Names

METRIC = re.compile(r"\b(?:rocketmq|flaremq)_[a-z0-9_]+")
_ENDINGS = {Kind.GAUGE: ("",), Kind.COUNTER: ("_total",), Kind.HISTOGRAM: ("_bucket", "_count", "_sum")}


def told_names() -> set[str]:
    """By the default fashion of names."""
    return {
        name + ending
        for family in CATALOGUE
        for name in family.names(Names.WITH_UNIT)
        for ending in _ENDINGS[family.kind]
    }
