"""The pytest fixture, found by pytest once FlareMQ is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flaremq.testing.broker import EphemeralBroker


@pytest.fixture
def flaremq_broker() -> Iterator[EphemeralBroker]:
    """A running broker with a manual clock: ``flaremq_broker.name_server``, ``flaremq_broker.advance(seconds=10)``."""
    from flaremq.testing.broker import ephemeral_broker

    with ephemeral_broker() as broker:
        yield broker
