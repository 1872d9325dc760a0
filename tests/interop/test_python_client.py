"""Our client against real RocketMQ servers: the same scenarios that it passes against ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.interop import jvm
from tests.interop.wire import servers
from tests.interop.wire.selection import require
from tests.support.client_scenarios import SCENARIOS

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS"))
def name_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Name server and broker of each release in turn."""
    target = f"rocketmq-{request.param}"
    require(servers.why_not(target))
    with servers.started(target, tmp_path_factory.mktemp(target)) as started:
        yield started.name_server


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenario_against_rocketmq(name_server: str, name: str) -> None:
    asyncio.run(SCENARIOS[name](name_server))
