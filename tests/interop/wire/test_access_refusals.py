"""Clients who may not: refused with RocketMQ's code and a sentence that says why, and nothing of theirs is stored."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flaremq.sync import Admin
from tests.interop.wire import accounts, probe, programs, servers
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop

_RUN_S = 100.0
_TOPIC = f"{accounts.PREFIX}refused"
_WRONG: probe.Signer = (accounts.APP[0], "wrong-secret-1")
_STRANGER: probe.Signer = ("wire-stranger", "stranger-secret-1")
_CASES = {
    "unsigned": None,
    "wrong": _WRONG,
    "stranger": _STRANGER,
    "nobody": accounts.NOBODY,
    "reader": accounts.READER,
}
# Clients get as far as the broker only with a route, and our name servers tell that to who is somebody.
_OPEN_ROUTES = {"authenticationWhitelist": "105"}

_PLAIN_WORDS = {
    "unsigned": "No accessKey is configured",
    "wrong": f"Check signature failed for accessKey={_WRONG[0]}",
    "stranger": f"Check signature failed for accessKey={_STRANGER[0]}",
    "nobody": f"No default permission for topic:{_TOPIC}",
    "reader": f"No default permission for topic:{_TOPIC}",
}
_PERMISSION = "User:{} has no permission to access Topic:" + _TOPIC + " from 127.0.0.1, no matched policies."
_WORDS = {
    "unsigned": "username cannot be null.",
    "wrong": "check signature failed.",
    "stranger": "check signature failed.",
    "nobody": _PERMISSION.format(accounts.NOBODY[0]),
    "reader": _PERMISSION.format(accounts.READER[0]),
}


def _expected(generation: str, version: str) -> dict[str, tuple[int, str]]:
    """Code and remark of each case, as clients of this release get them."""
    if generation == accounts.AUTH:
        return {name: (16, words) for name, words in _WORDS.items()}
    if version.startswith("5."):
        return {name: (16, words) for name, words in _PLAIN_WORDS.items()}
    exception = "org.apache.rocketmq.acl.common.AclException"
    return {name: (1, f"{exception}: {words}") for name, words in _PLAIN_WORDS.items()}


# The quicker client is the core.
_PEERS = [
    pytest.param(accounts.ACL, "4.9.7", marks=pytest.mark.wire_core),
    (accounts.ACL, "5.5.0"),
    (accounts.AUTH, "4.9.7"),
    (accounts.AUTH, "5.5.0"),
]


@pytest.fixture(scope="module")
def generation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def guarded(generation: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Servers]:
    folder = tmp_path_factory.mktemp(f"refusing-{generation}")
    with accounts.guarded("flaremq", generation, folder, more=_OPEN_ROUTES) as started:
        if generation == accounts.AUTH:
            accounts.make_users(started)
        _make_topic(started, _TOPIC)
        yield started


def _make_topic(target: servers.Servers, topic: str) -> None:
    probe.create_topic(target.broker, topic, queues=4, signer=accounts.ADMIN)
    has_route = partial(probe.has_route, target.name_server, topic, signer=accounts.ADMIN)
    probe.wait(f"route to {topic}", has_route, seconds=30)


def _told(target: servers.Servers, version: str, names: Iterable[str], scratch: Path) -> dict[str, Any]:
    """What ``java/Refused.java`` says of these cases; its log is left in ``scratch``."""
    cases = ",".join(":".join([name, *(_CASES[name] or ())]) for name in names)
    command = programs.java_command(
        version,
        "Refused",
        [f"namesrv={target.name_server}", f"topic={_TOPIC}", f"cases={cases}"],
        header=programs.JSON,
        scratch=scratch,
        more_properties={**accounts.java_properties(), "flaremq.log": "WARN"},
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_S, check=False)
    (scratch / "refused.log").write_text(done.stderr)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr[-4000:]
    answers: dict[str, Any] = json.loads(lines[-1])
    return answers


@pytest.mark.parametrize(("generation", "version"), _PEERS, indirect=["generation"])
def test_java_clients_are_told_why(guarded: servers.Servers, generation: str, version: str, tmp_path: Path) -> None:
    require(programs.why_no_java(version))
    answers = _told(guarded, version, _CASES, tmp_path)
    assert answers.pop("stored") == 0
    assert answers["reader"].pop("pull") == {"code": 0, "remark": ""}
    found = {name: {(each["code"], each["remark"]) for each in tries.values()} for name, tries in answers.items()}
    assert found == {name: {words} for name, words in _expected(generation, version).items()}


def test_a_client_that_gets_no_route_has_the_reason_in_its_log(tmp_path: Path) -> None:
    """Java's exception speaks of a missing route then: RocketMQ's own name servers never refuse one."""
    require(programs.why_no_java("5.5.0"))
    with accounts.guarded("flaremq", accounts.AUTH, tmp_path / "servers") as started:
        _make_topic(started, _TOPIC)
        answers = _told(started, "5.5.0", ["unsigned"], tmp_path)
    assert answers["stored"] == 0
    assert "No route info of this topic" in answers["unsigned"]["send"]["remark"]
    log = (tmp_path / "refused.log").read_text()
    assert "CODE: 16" in log and "username cannot be null." in log, log


@pytest.mark.parametrize("generation", accounts.GENERATIONS, indirect=True)
@pytest.mark.parametrize("case", ["unsigned", "wrong", "reader"])
def test_what_go_and_node_may_not_send_is_not_stored(
    guarded: servers.Servers, generation: str, case: str, tmp_path: Path
) -> None:
    require(programs.why_no_go() or programs.why_no_node())
    signer = _CASES[case]
    run = f"wmay-not-{case}"
    commands = {
        f"{run}-send_sync-1": [*accounts.go_command(guarded, signer), "scenarios=send_sync"],
        f"{run}-send_and_receive": [*accounts.node_command(guarded, signer), "scenarios=send_and_receive"],
    }
    for topic, command in commands.items():
        _make_topic(guarded, topic)
        results = programs.run_scenarios(
            [*command, f"run={run}", "patience=5"],
            log=tmp_path / "client.log",
            timeout_s=_RUN_S,
            environment=programs.node_environment(tmp_path),
        )
        (result,) = results.values()
        assert not result["ok"]
        with Admin(guarded.name_server, credentials=accounts.credentials(accounts.ADMIN)) as admin:
            assert sum(each.max_offset for each in admin.topic_stats(topic).offset_table.values()) == 0
