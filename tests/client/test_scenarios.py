"""The client's scenarios against our own servers, by the real clock."""

from __future__ import annotations

import asyncio

import pytest

from flaremq.clock import SystemClock
from flaremq.testing import ephemeral_broker
from tests.support.client_scenarios import SCENARIOS


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenario_against_our_servers(name: str) -> None:
    async def run() -> None:
        async with ephemeral_broker(
            clock=SystemClock(), transactionCheckInterval=300, transactionTimeOut=100, enablePropertyFilter=True
        ) as broker:
            await SCENARIOS[name](broker.name_server)

    asyncio.run(run())
