"""A broker for the commands that administer one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flaremq.clock import SystemClock
from flaremq.testing import EphemeralBroker, ephemeral_broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[EphemeralBroker]:
    """One broker for a whole module: tests keep apart by the names of their topics and groups."""
    with ephemeral_broker(clock=SystemClock(), flushDiskType="ASYNC_FLUSH", enablePropertyFilter=True) as broker:
        yield broker
