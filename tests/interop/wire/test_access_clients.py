"""Unmodified clients that sign do everything on our servers with access control; who may not is refused, and told why.

The clients of the scenarios have an account with the rights they need and no more; the admin client that makes their
topics has the administrator's. ``test_access_refusals`` has those who are let in nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from tests.interop.wire import accounts, java_client, probe, programs, scenarios, servers
from tests.interop.wire.selection import require, selected

pytestmark = pytest.mark.interop

_RUN_S = 200.0
_CORE_CLIENTS = {(accounts.ACL, "4.9.7"), (accounts.AUTH, "5.5.0")}
# What asks for different rights: batches, the end of a transaction, retries, queries, pops.
_CORE = frozenset(
    {
        "send_batch",
        "transaction_decided",
        "push_retry_to_dead_letters",
        "query_messages",
        "pop_two_instances",
    }
)
# Of each kind of header one client; the core's clients are those of ``test_java_clients``.
_CLIENTS = (
    (accounts.ACL, "4.9.7", programs.BINARY),
    (accounts.ACL, "5.5.0", programs.BINARY),
    (accounts.AUTH, "4.9.7", programs.JSON),
    (accounts.AUTH, "5.5.0", programs.JSON),
)


def _java_cases() -> list[object]:
    cases: list[object] = []
    for generation, version, header in _CLIENTS:
        for scenario in scenarios.java(version, header):
            marks = [pytest.mark.xdist_group(f"access-{generation}-{version}")]
            if (generation, version) in _CORE_CLIENTS and scenario in _CORE:
                marks.append(pytest.mark.wire_core)
            parameters = (generation, version, header, scenario)
            cases.append(pytest.param(*parameters, marks=marks, id=f"{generation}-{version}-{scenario}"))
    return cases


@pytest.fixture(scope="module")
def java_runs() -> dict[tuple[str, str], dict[str, programs.Result]]:
    """Filled by the first test of a client; one JVM runs all of its scenarios."""
    return {}


@pytest.mark.parametrize(("generation", "version", "header", "scenario"), _java_cases())
def test_java_clients_that_sign(
    request: pytest.FixtureRequest,
    guarded_servers: Callable[[str], servers.Servers],
    java_runs: dict[tuple[str, str], dict[str, programs.Result]],
    tmp_path_factory: pytest.TempPathFactory,
    generation: str,
    version: str,
    header: str,
    scenario: str,
) -> None:
    require(programs.why_no_java(version))
    if (generation, version) not in java_runs:
        java_runs[generation, version] = java_client.run(
            guarded_servers(generation),
            version,
            header,
            selected(request, "scenario", generation=generation, version=version),
            run=f"wj{version[0]}",
            scratch=tmp_path_factory.mktemp(f"java-{generation}-{version}"),
            properties=accounts.java_properties(),
        )
    _check(java_runs[generation, version], scenario)


def _check(results: dict[str, programs.Result], scenario: str) -> None:
    result = results.get(scenario)
    assert result is not None, f"{scenario} was not finished in time"
    assert result["ok"], result["error"]


@pytest.fixture(scope="module")
def other_runs() -> dict[tuple[str, str], dict[str, programs.Result]]:
    """The same for clients in other languages."""
    return {}


def _make_topics(target: servers.Servers, topics: Iterable[str]) -> None:
    for topic in topics:
        probe.create_topic(target.broker, topic, queues=4, signer=accounts.ADMIN)
        has_route = partial(probe.has_route, target.name_server, topic, signer=accounts.ADMIN)
        probe.wait(f"route to {topic}", has_route, seconds=30)


# Go's admin client signs neither what makes a topic nor its questions for a route, its pull consumer not the latter.
_GO = [name for name in scenarios.GO if name not in ("administer", "pull")]


@pytest.mark.parametrize("generation", accounts.GENERATIONS)
@pytest.mark.parametrize("scenario", _GO)
def test_go_clients_that_sign(
    request: pytest.FixtureRequest,
    guarded_servers: Callable[[str], servers.Servers],
    other_runs: dict[tuple[str, str], dict[str, programs.Result]],
    tmp_path: Path,
    generation: str,
    scenario: str,
) -> None:
    require(programs.why_no_go())
    if ("go", generation) not in other_runs:
        target = guarded_servers(generation)
        names = selected(request, "scenario", generation=generation)
        _make_topics(target, [f"wgo-{name}-1" for name in names])
        other_runs["go", generation] = programs.run_scenarios(
            [*accounts.go_command(target, accounts.APP), "run=wgo", f"scenarios={','.join(names)}"],
            log=tmp_path / "go.log",
            timeout_s=_RUN_S,
        )
    _check(other_runs["go", generation], scenario)


@pytest.mark.parametrize("generation", accounts.GENERATIONS)
@pytest.mark.parametrize("scenario", scenarios.NODE)
def test_node_clients_that_sign(
    request: pytest.FixtureRequest,
    guarded_servers: Callable[[str], servers.Servers],
    other_runs: dict[tuple[str, str], dict[str, programs.Result]],
    tmp_path: Path,
    generation: str,
    scenario: str,
) -> None:
    require(programs.why_no_node())
    if ("node", generation) not in other_runs:
        target = guarded_servers(generation)
        names = selected(request, "scenario", generation=generation)
        _make_topics(target, [f"wnode-{name}" for name in names])
        other_runs["node", generation] = programs.run_scenarios(
            [*accounts.node_command(target, accounts.APP), "run=wnode", f"scenarios={','.join(names)}"],
            log=tmp_path / "node.log",
            timeout_s=_RUN_S,
            environment=programs.node_environment(tmp_path),
        )
    _check(other_runs["node", generation], scenario)
