"""The same scenarios at other doors: our proxy before servers of ours and real ones, and the original itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import jvm
from tests.interop.grpc import clients, doors, scenarios
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop
_REAL = f"{doors.BEFORE}rocketmq-{jvm.pinned_versions('ROCKETMQ_PROXY_VERSION')[0]}"


@pytest.mark.parametrize(
    ("target", "client"),
    [
        (f"{doors.BEFORE}{doors.OURS}", clients.NODE),
        (_REAL, clients.JAVA),
        (_REAL, clients.PYTHON),
        (doors.PROXY, clients.JAVA),
    ],
)
def test_every_scenario_holds_there(target: str, client: str, tmp_path: Path) -> None:
    require(doors.why_not(target))
    require(clients.why_not(client))
    names = scenarios.of(client)
    with doors.opened(target, tmp_path / "door") as door:
        results = clients.run(client, door, names, run="gother", scratch=tmp_path)
    assert {name: result["error"] for name, result in results.items() if not result["ok"]} == {}
    assert set(results) == set(names)
