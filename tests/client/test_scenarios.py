"""The client's scenarios against our own servers, by the real clock."""

from __future__ import annotations

import asyncio

import pytest

from flaremq.clock import SystemClock
from flaremq.testing import ephemeral_broker
from tests.support.client_scenarios import SCENARIOS


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenario_against_our_servers(name: str) -> None:
    async def run() -> None:
        options = {"transactionCheckInterval": 300, "transactionTimeOut": 100, "enablePropertyFilter": True}
        async with ephemeral_broker(clock=SystemClock(), **options) as broker:
            await SCENARIOS[name](broker.name_server)

    asyncio.run(run())
