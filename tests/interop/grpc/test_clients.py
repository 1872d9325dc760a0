"""Unmodified clients of RocketMQ 5 do everything they can do: send, receive, order, delay, transact, retry."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.interop.grpc import clients, scenarios
from tests.interop.grpc.conftest import Results
from tests.interop.wire.selection import require, selected

pytestmark = pytest.mark.interop


def _cases() -> list[object]:
    cases: list[object] = []
    for client in clients.CLIENTS:
        for scenario in scenarios.of(client):
            marks = [pytest.mark.xdist_group(f"grpc-{client}")]
            if scenario in scenarios.CORE and (client, scenario) not in scenarios.SLOW:
                marks.append(pytest.mark.wire_core)
            cases.append(pytest.param(client, scenario, marks=marks, id=f"{client}-{scenario}"))
    return cases


@pytest.mark.parametrize(("client", "scenario"), _cases())
def test_client(request: pytest.FixtureRequest, results: Results, client: str, scenario: str) -> None:
    result = results(client, selected(request, "scenario", client=client)).get(scenario)
    assert result is not None, f"{scenario} was not finished in time"
    assert result["ok"], result["error"]


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_every_scenario_of_a_program_is_run(client: str, tmp_path: Path) -> None:
    require(clients.why_not(client))
    command, environment = clients.listing(client, tmp_path)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env={**os.environ, **environment}
    )
    prepared = () if client == clients.NODE else scenarios.PREPARED
    assert sorted(json.loads(done.stdout.splitlines()[-1])) == sorted(scenarios.of(client) + prepared)
