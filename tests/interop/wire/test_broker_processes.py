"""Several brokers of ours at one name server, `flaremq broker --processes`: clients spread over all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.interop import jvm
from tests.interop.wire import java_client, probe, programs, servers
from tests.interop.wire.selection import require
from tests.interop.wire.server_process import ServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("processes")]

_CLIENT = "5.5.0"
_SCENARIOS = ("send_sync", "push_rebalance", "push_orderly", "query_messages", "push_retry_to_dead_letters")
_BROKERS = 2


def test_clients_spread_over_the_brokers_of_one_command(tmp_path: Path) -> None:
    require(programs.why_no_java(_CLIENT))
    addresses = servers.Servers("flaremq+flaremq", tmp_path)
    flaremq = servers.FlareMQ()
    name_server = flaremq.name_server(tmp_path, addresses.name_server, {})
    command = [sys.executable, "-m", "flaremq", "broker", "-n", addresses.name_server, "--listen", addresses.broker]
    command += ["--data", str(tmp_path / "brokers"), "--processes", str(_BROKERS)]
    brokers = ServerProcess(command, tmp_path / "brokers.out", {"PYTHONPATH": str(jvm.PROJECT / "src")})
    try:
        probe.wait(
            f"{_BROKERS} brokers",
            lambda: probe.broker_count(addresses.name_server) == _BROKERS,
            seconds=servers.READY_S,
        )
        results = java_client.run(addresses, _CLIENT, programs.JSON, _SCENARIOS, run="wmany", scratch=tmp_path)
    finally:
        # In order: killed, the command could not stop its brokers.
        brokers.stop()
        name_server.kill()
    failed = {name: result["error"] for name, result in results.items() if not result["ok"]}
    assert not failed
    assert set(results) == set(_SCENARIOS)
    assert results["send_sync"]["facts"]["brokers"] == _BROKERS
