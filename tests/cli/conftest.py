"""A broker for the commands that administer one, and a terminal's Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from flaremq.clock import SystemClock
from flaremq.testing import EphemeralBroker, ephemeral_broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[EphemeralBroker]:
    """One broker for a whole module: tests keep apart by the names of their topics and groups."""
    with ephemeral_broker(clock=SystemClock(), flushDiskType="ASYNC_FLUSH", enablePropertyFilter=True) as broker:
        yield broker


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """New programs hear SIGINT, also where the tests run in the background of a shell: what begins there ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
