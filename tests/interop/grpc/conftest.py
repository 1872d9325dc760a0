"""Fixtures of the tests with clients of RocketMQ 5: doors, and what programs said that talked to one.

The doors are ours unless FLAREMQ_GRPC_TARGETS names others ("proxy", or several): that is how the suites themselves are
proved right.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.grpc import clients, doors
from tests.interop.wire import programs
from tests.interop.wire.selection import require

Results = Callable[[str, tuple[str, ...]], dict[str, programs.Result]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "wire_core: the part of the tests over the wire that takes three minutes at most"
    )


@pytest.fixture(scope="session", params=os.environ.get("FLAREMQ_GRPC_TARGETS", doors.OURS).split())
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    require(doors.why_not(name))
    return name


@pytest.fixture(scope="session")
def door(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[doors.Door]:
    """A door that all suites of a run share."""
    with doors.opened(target, tmp_path_factory.mktemp("door")) as opened:
        yield opened


@pytest.fixture(scope="session")
def results(door: doors.Door, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Run scenarios with a client, all of them at the first question for one."""
    known: dict[tuple[str, str], dict[str, programs.Result]] = {}

    def of(client: str, names: tuple[str, ...]) -> dict[str, programs.Result]:
        require(clients.why_not(client))
        key = door.target, client
        if key not in known:
            known[key] = clients.run(client, door, names, run=f"g{client}", scratch=scratch(client))
        return known[key]

    def scratch(client: str) -> Path:
        return tmp_path_factory.mktemp(client)

    return of
