"""Node's ali-ons produces and consumes: tags, SQL, retries, broadcast, rebalance, offsets."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.interop.wire import probe, programs, scenarios
from tests.interop.wire.selection import require, selected
from tests.interop.wire.servers import Servers

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("node")]
_PROGRAM = programs.HERE / "node" / "wire.js"
_RUN_S = 200.0
_RUN = "wnode"


@pytest.fixture(scope="module")
def node_results() -> dict[str, dict[str, programs.Result]]:
    """Filled by the first test that asks; keyed by target."""
    return {}


def _cases() -> list[object]:
    return [
        pytest.param(name, marks=[pytest.mark.wire_core] if name in scenarios.CORE else [], id=name)
        for name in scenarios.NODE
    ]


@pytest.mark.parametrize("scenario", _cases())
def test_node_client(
    request: pytest.FixtureRequest,
    wire_servers: Servers,
    node_results: dict[str, dict[str, programs.Result]],
    scratch: Path,
    scenario: str,
) -> None:
    require(programs.why_no_node())
    if wire_servers.target not in node_results:
        names = selected(request, "scenario")
        # ali-ons neither makes topics nor sends to one that is not there.
        for name in names:
            probe.create_topic(wire_servers.broker, f"{_RUN}-{name}", queues=4)
            has_route = partial(probe.has_route, wire_servers.name_server, f"{_RUN}-{name}")
            probe.wait(f"route to {name}", has_route, seconds=30)
        arguments = [f"namesrv={wire_servers.name_server}", f"run={_RUN}", f"scenarios={','.join(names)}"]
        node_results[wire_servers.target] = programs.run_scenarios(
            ["node", str(_PROGRAM), *arguments],
            log=scratch / "node.log",
            timeout_s=_RUN_S,
            environment=programs.node_environment(scratch),
        )
    result = node_results[wire_servers.target].get(scenario)
    assert result is not None, f"{scenario} was not finished in time"
    assert result["ok"], result["error"]


def test_every_scenario_of_the_node_program_is_run(scratch: Path) -> None:
    require(programs.why_no_node())
    done = subprocess.run(
        ["node", str(_PROGRAM), "list=1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **programs.node_environment(scratch)},
    )
    assert sorted(json.loads(done.stdout)) == sorted(scenarios.NODE + scenarios.REPLICATED)
