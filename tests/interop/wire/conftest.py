"""Fixtures of the tests over the wire: servers to talk to, and the results of client programs that talked to them.

The servers are ours unless FLAREMQ_WIRE_TARGETS names others ("rocketmq-5.5.0", "rocketmq-4.9.7 rocketmq-5.5.0"): that
is how the suites themselves are proved right. A program runs all the selected scenarios of its kind at once, at the
first test that wants one of them; the tests then only look at what it said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.wire import accounts, java_client, programs, servers
from tests.interop.wire.selection import require

_LAST = "test_store_exchange.py"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "wire_core: the part of the tests over the wire that takes three minutes at most"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The exchange of stores comes last: it wants what all the others have stored, and stops the servers."""
    items.sort(key=lambda item: item.path.name == _LAST)


def targets() -> list[str]:
    return os.environ.get("FLAREMQ_WIRE_TARGETS", "flaremq").split()


@pytest.fixture(scope="session", params=targets())
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    require(servers.why_not(name))
    return name


@pytest.fixture(scope="session")
def wire_servers(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Servers]:
    """Name server and broker that all suites of a run share."""
    with servers.started(target, tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture(scope="session")
def java_results(
    wire_servers: servers.Servers, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str, tuple[str, ...]], dict[str, programs.Result]]:
    """Run scenarios with the Java client of a release, once for each release and kind of header."""
    known: dict[tuple[str, str], dict[str, programs.Result]] = {}

    def results(version: str, header: str, names: tuple[str, ...]) -> dict[str, programs.Result]:
        require(programs.why_no_java(version))
        if (version, header) not in known:
            scratch = tmp_path_factory.mktemp(f"java-{version}-{header}")
            known[version, header] = java_client.run(
                wire_servers, version, header, names, run=f"wj{version[0]}{header[0]}", scratch=scratch
            )
        return known[version, header]

    return results


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wire")


@pytest.fixture(scope="module")
def guarded_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], servers.Servers]]:
    """The servers of a generation, started by the first test that wants them."""
    known: dict[str, servers.Servers] = {}
    with ExitStack() as running:

        def of(generation: str) -> servers.Servers:
            if generation not in known:
                folder = tmp_path_factory.mktemp(generation)
                known[generation] = running.enter_context(accounts.guarded("flaremq", generation, folder))
                if generation == accounts.AUTH:
                    accounts.make_users(known[generation])
            return known[generation]

        yield of
