"""Unmodified Java clients of 4.9 and 5.x, with JSON and with binary headers, do everything they can do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import jvm
from tests.interop.wire import programs, scenarios
from tests.interop.wire.selection import require, selected
from tests.interop.wire.servers import Servers

pytestmark = pytest.mark.interop

# The two that differ most are the core: each release, each kind of header.
_CORE_CLIENTS = {("5.5.0", programs.JSON), ("4.9.7", programs.BINARY)}
_WIRE_VERSIONS = jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS")


def _cases() -> list[object]:
    cases: list[object] = []
    for version in _WIRE_VERSIONS:
        for header in (programs.JSON, programs.BINARY):
            for scenario in scenarios.java(version, header):
                marks = [pytest.mark.xdist_group(f"java-{version}-{header}")]
                if (version, header) in _CORE_CLIENTS and scenario in scenarios.CORE:
                    marks.append(pytest.mark.wire_core)
                cases.append(pytest.param(version, header, scenario, marks=marks, id=f"{version}-{header}-{scenario}"))
    return cases


@pytest.mark.parametrize(("version", "header", "scenario"), _cases())
def test_java_client(
    request: pytest.FixtureRequest,
    wire_servers: Servers,
    java_results: Callable[[str, str, tuple[str, ...]], dict[str, programs.Result]],
    version: str,
    header: str,
    scenario: str,
) -> None:
    if scenarios.asks_too_much(version, wire_servers.broker_version):
        pytest.skip(f"RocketMQ {wire_servers.broker_version} is too old for clients of {version}")
    wanted = selected(request, "scenario", version=version, header=header)
    result = java_results(version, header, wanted).get(scenario)
    assert result is not None, f"{scenario} was not finished in time"
    assert result["ok"], result["error"]


@pytest.mark.parametrize("version", _WIRE_VERSIONS)
def test_every_scenario_of_the_java_program_is_run(version: str, scratch: Path) -> None:
    require(programs.why_no_java(version))
    command = programs.java_command(version, "Wire", ["list=1"], header=programs.JSON, scratch=scratch)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(json.loads(done.stdout)) == sorted(scenarios.java(version, programs.JSON) + scenarios.REPLICATED)
