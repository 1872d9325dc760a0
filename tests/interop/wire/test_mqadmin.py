"""The real mqadmin of 4.9 and 5.x: every command of the protocol's table, with what it has to print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import jvm
from tests.interop.wire import mqadmin, mqadmin_steps, programs, scenarios
from tests.interop.wire.selection import require
from tests.interop.wire.servers import Servers

pytestmark = pytest.mark.interop

# The tool of 5.x waits seconds at the end of every other command, so all of 4.9 and a few of 5.x make up the core.
_CORE_5 = {
    "clusterList",
    "brokerStatus",
    "topicList",
    "topicStatus",
    "updateTopic",
    "queryMsgByKey",
    "consumerProgress",
}
_WIRE_VERSIONS = jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS")


def _cases() -> list[object]:
    cases: list[object] = []
    for version in _WIRE_VERSIONS:
        for step in mqadmin_steps.steps_of(version):
            marks = [pytest.mark.xdist_group(f"mqadmin-{version}")]
            if version[0] == "4" or step.name in _CORE_5:
                marks.append(pytest.mark.wire_core)
            cases.append(pytest.param(version, step, marks=marks, id=f"{version}-{step.name}"))
    return cases


@pytest.fixture(scope="module")
def tools(wire_servers: Servers, scratch: Path) -> Iterator[dict[str, mqadmin.Mqadmin]]:
    """One running tool a release, started by the first test that wants it."""
    started: dict[str, mqadmin.Mqadmin] = {}
    yield started
    for tool in started.values():
        tool.close()


@pytest.mark.parametrize(("version", "step"), _cases())
def test_mqadmin(
    wire_servers: Servers,
    tools: dict[str, mqadmin.Mqadmin],
    scratch: Path,
    version: str,
    step: mqadmin_steps.Step,
) -> None:
    require(programs.why_no_java(version))
    if scenarios.asks_too_much(version, wire_servers.broker_version):
        pytest.skip(f"RocketMQ {wire_servers.broker_version} is too old for the tool of {version}")
    if version[0] == "4" and wire_servers.broker_version[0] == "5" and step.name == "clusterList":
        pytest.skip("a 5.x broker does not say what the tool of 4.9 reads")
    if version not in tools:
        folder = scratch / f"mqadmin-{version}-{wire_servers.target}"
        tools[version] = mqadmin.Mqadmin(version, wire_servers, f"wadm{version[0]}", folder)
    tool = tools[version]
    command, *words = step.words(tool.names)
    answer = tool.run(command, words)
    assert answer.has_failed == step.is_refused, answer.text
    complaints = step.complaints(answer.text, tool.names)
    assert not complaints, f"{complaints}\n{answer.text}"


def test_steps_cover_the_table() -> None:
    for version in _WIRE_VERSIONS:
        commands = {step.command.split(" ")[0] for step in mqadmin_steps.steps_of(version)}
        assert len(commands) >= 35
