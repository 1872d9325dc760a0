"""What a name server tells Prometheus; RocketMQ's tells nothing."""

from __future__ import annotations

from typing import Final

from flaremq.metrics.family import Family, gauge

BROKERS = gauge("flaremq_namesrv_brokers", "Brokers that are registered, slaves included.")
TOPICS = gauge("flaremq_namesrv_topics", "Topics that some broker serves.")
CATALOGUE: Final[tuple[Family, ...]] = (BROKERS, TOPICS)
