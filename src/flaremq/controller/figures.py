"""What a controller tells Prometheus."""

from __future__ import annotations

from typing import Final

from flaremq.metrics.family import Family, gauge

LEADING = gauge("flaremq_controller_leading", "1: this controller decides.")
GROUPS = gauge("flaremq_controller_broker_names", "Broker names it decides about; 0 while another one leads.")
CATALOGUE: Final[tuple[Family, ...]] = (LEADING, GROUPS)
