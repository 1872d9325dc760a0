"""Stores change hands: a broker of the other kind serves what was stored under all this load.

Runs after all other tests over the wire, on the store they have filled. Everything a client can see is compared:
queues with their bounds, messages with positions, times, identities, properties and bodies, a key of each topic, and
the offsets of the groups. What was still delayed may have become due in between, so queues may be longer afterwards,
never different.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.interop import jvm
from tests.interop.wire import java_client, programs, scenarios, servers
from tests.interop.wire.selection import require

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("exchange")]

# All programs of these tests begin the names of their topics and groups with it.
_PREFIX = "w"
_REAL = jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS")
_NEWEST = _REAL[-1]

Contents = dict[str, Any]


@pytest.fixture(scope="module")
def stored(wire_servers: servers.Servers, scratch: Path) -> tuple[Path, dict[str, Contents]]:
    """The store of the suites' servers, stopped in order, and what the clients of each release saw in it."""
    _load(wire_servers, _NEWEST, scratch)
    served = {version: java_client.contents(wire_servers, version, _PREFIX, scratch=scratch) for version in _REAL}
    wire_servers.stop()
    return wire_servers.store, served


@pytest.mark.parametrize("reader", _REAL)
def test_real_broker_serves_what_ours_stored(
    stored: tuple[Path, dict[str, Contents]], reader: str, tmp_path: Path
) -> None:
    require(servers.why_not(f"rocketmq-{reader}"))
    store, served = stored
    _opens(f"rocketmq-{reader}", store, reader, served[reader], tmp_path)


@pytest.mark.parametrize("writer", _REAL)
def test_ours_serves_what_a_real_broker_stored(writer: str, tmp_path: Path) -> None:
    require(servers.why_not(f"rocketmq-{writer}"))
    with servers.started(f"rocketmq-{writer}", tmp_path / "writer") as real:
        _load(real, writer, tmp_path)
        served = java_client.contents(real, writer, _PREFIX, scratch=tmp_path)
        real.stop()
        _opens("flaremq", real.store, writer, served, tmp_path)


def _load(target: servers.Servers, client: str, scratch: Path) -> None:
    require(programs.why_no_java(client))
    results = java_client.run(target, client, programs.JSON, scenarios.LOAD, run=f"{_PREFIX}load", scratch=scratch)
    failed = {name: result["error"] for name, result in results.items() if not result["ok"]}
    assert not failed and len(results) == len(scenarios.LOAD), failed or results.keys()


def _opens(reader: str, store: Path, client: str, served: Contents, folder: Path) -> None:
    """The reader serves a copy of the store; a client of this release sees what it has seen before."""
    shutil.copytree(store, folder / "reader" / "store")
    with servers.started(reader, folder / "reader") as started:
        found = java_client.contents(started, client, _PREFIX, scratch=folder)
    assert len(served["topics"]) > len(scenarios.LOAD)
    for topic, expected in served["topics"].items():
        assert topic in found["topics"], f"{topic} is gone"
        _same_topic(topic, expected, found["topics"][topic])
    assert served["groups"], "no group has committed anything"
    for group, offsets in served["groups"].items():
        assert found["groups"].get(group) == offsets, group


def _same_topic(topic: str, expected: Contents, found: Contents) -> None:
    for queue_id, queue in expected["queues"].items():
        other = found["queues"][queue_id]
        assert other["min"] == queue["min"], f"{topic}, queue {queue_id}"
        assert other["messages"][: len(queue["messages"])] == queue["messages"], f"{topic}, queue {queue_id}"
        assert other["max"] >= queue["max"], f"{topic}, queue {queue_id}"
    for name in expected.keys() - {"queues"}:
        if name.startswith("byKey"):
            assert set(expected[name]) <= set(found[name]), f"{topic}: {name}"
        else:
            assert found[name] == expected[name], f"{topic}: {name}"
