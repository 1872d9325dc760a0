"""The Go client v2 produces, consumes, orders, transacts, asks and administers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.interop.wire import programs, scenarios
from tests.interop.wire.selection import require, selected
from tests.interop.wire.servers import Servers

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("go")]
_RUN_S = 200.0


@pytest.fixture(scope="module")
def go_results() -> dict[str, dict[str, programs.Result]]:
    """Filled by the first test that asks; keyed by target."""
    return {}


def _cases() -> list[object]:
    return [
        pytest.param(name, marks=[pytest.mark.wire_core] if name in scenarios.CORE else [], id=name)
        for name in scenarios.GO
    ]


@pytest.mark.parametrize("scenario", _cases())
def test_go_client(
    request: pytest.FixtureRequest,
    wire_servers: Servers,
    go_results: dict[str, dict[str, programs.Result]],
    scratch: Path,
    scenario: str,
) -> None:
    require(programs.why_no_go())
    if wire_servers.target not in go_results:
        names = ",".join(selected(request, "scenario"))
        arguments = [f"namesrv={wire_servers.name_server}", f"broker={wire_servers.broker}", "run=wgo"]
        go_results[wire_servers.target] = programs.run_scenarios(
            [str(programs.go_program()), *arguments, f"scenarios={names}"], log=scratch / "go.log", timeout_s=_RUN_S
        )
    result = go_results[wire_servers.target].get(scenario)
    assert result is not None, f"{scenario} was not finished in time"
    assert result["ok"], result["error"]


def test_every_scenario_of_the_go_program_is_run() -> None:
    require(programs.why_no_go())
    done = subprocess.run(
        [str(programs.go_program()), "list=1"], capture_output=True, text=True, timeout=60, check=True
    )
    assert sorted(json.loads(done.stdout)) == sorted(scenarios.GO + scenarios.REPLICATED)
