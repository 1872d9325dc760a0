"""Our name server with a real broker, and a real name server with our broker, serve real clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import jvm
from tests.interop.wire import java_client, programs, scenarios, servers
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop

_SCENARIOS = (
    "send_sync",
    "send_creates_topic",
    "send_batch",
    "push_rebalance",
    "push_retry_to_dead_letters",
    "push_orderly",
)
_PAIRS = [
    pair
    for version in jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS")
    for pair in (f"flaremq+rocketmq-{version}", f"rocketmq-{version}+flaremq")
]


@pytest.mark.parametrize("pair", _PAIRS)
def test_servers_of_both_kinds_work_together(pair: str, tmp_path: Path) -> None:
    client = "4.9.7" if "4.9.7" in pair else "5.5.0"
    require(servers.why_not(pair))
    require(programs.why_no_java(client))
    assert set(_SCENARIOS) <= set(scenarios.JAVA)
    with servers.started(pair, tmp_path / "servers") as started:
        results = java_client.run(started, client, programs.JSON, _SCENARIOS, run="wmix", scratch=tmp_path)
        # A name server that has lost its broker and gets it back.
        started.restart()
        results |= java_client.run(started, client, programs.JSON, ["send_async"], run="wagain", scratch=tmp_path)
    failed = {name: result["error"] for name, result in results.items() if not result["ok"]}
    assert not failed
    assert set(results) == {*_SCENARIOS, "send_async"}
