"""Consumers of every kind go on when the master of their queues is killed: the slave has the rest, and gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from flaremq.client.consumer.consumer import Consumer
from flaremq.client.options import ConsumerOptions
from tests.interop.replication.combinations import combinations, require_group
from tests.interop.replication.group import Group
from tests.interop.replication.talk import OK
from tests.interop.wire import probe, programs
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop

_SCENARIO = "master_lost"
_RUN_S = 150.0
_ROUND_S = 90.0
_TOPICS = 21
_CLIENTS = ("java-5.5.0", "java-4.9.7", "go", "node", "python")


def _clients(kinds: str) -> tuple[str, ...]:
    """All of them where both brokers are of one kind, else the Java client that fits."""
    master, slave = kinds.split(">")
    if master == slave:
        return _CLIENTS[1:] if master == "rocketmq-4.9.7" else _CLIENTS
    return ("java-4.9.7",) if "rocketmq-4.9.7" in kinds else ("java-5.5.0",)


def _cases() -> list[object]:
    cases: list[object] = []
    for parameter in combinations():
        kinds = parameter.values[0]  # type: ignore[attr-defined]
        for client in _clients(kinds):
            core = [pytest.mark.wire_core] if (kinds, client) == ("flaremq>flaremq", "java-5.5.0") else []
            name = kinds.replace("rocketmq-", "")
            cases.append(pytest.param(kinds, client, marks=core, id=f"{name}-{client}"))
    return cases


@pytest.mark.parametrize(("kinds", "client"), _cases())
def test_consumer_reads_the_rest_from_the_slave(kinds: str, client: str, tmp_path: Path) -> None:
    require_group(kinds)
    run: Callable[[Group, Path], None]
    if client == "python":
        run = _python
    else:
        kind, _, version = client.partition("-")
        missing = {
            "java": lambda: programs.why_no_java(version),
            "go": programs.why_no_go,
            "node": programs.why_no_node,
        }
        require(missing[kind]())
        run = _program(kind, version)
    with Group(kinds, tmp_path / "group") as group:
        group.start()
        run(group, tmp_path)


def _lose_master(group: Group, topic: str) -> None:
    """When the slave has all and knows the topic, so that nothing is missing but the master."""
    group.wait_caught_up()

    def knows_topic() -> bool:
        # Not a retry topic of that name, which the slave makes by itself when the consumer introduces itself.
        return any(name.startswith(topic) for name in group.slave.talk.ask(_TOPICS).json()["topicConfigTable"])

    group.wait(f"{topic} at the slave", knows_topic, seconds=_ROUND_S)
    group.master.kill()


def _program(kind: str, version: str) -> Callable[[Group, Path], None]:
    def run(group: Group, scratch: Path) -> None:
        arguments = [f"namesrv={group.name_server}", f"broker={group.master.address}", "run=wlost"]
        arguments.append(f"scenarios={_SCENARIO}")
        environment: dict[str, str] = {}
        if kind == "java":
            command = programs.java_command(version, "Wire", arguments, header=programs.JSON, scratch=scratch)
        elif kind == "go":
            command = [str(programs.go_program()), *arguments]
        else:
            command = ["node", str(programs.HERE / "node" / "wire.js"), *arguments]
            environment = {"NODE_PATH": str(programs.node_modules() / "node_modules"), "HOME": str(scratch)}
            probe.create_topic(group.master.address, f"wlost-{_SCENARIO}", queues=4)
            probe.wait("route", lambda: probe.has_route(group.name_server, f"wlost-{_SCENARIO}"), seconds=30)
        results = programs.run_scenarios(
            command,
            log=scratch / "client.log",
            timeout_s=_RUN_S,
            environment=environment,
            asked=lambda _what: _lose_master(group, f"wlost-{_SCENARIO}"),
        )
        assert _SCENARIO in results, f"not finished in time\n{group.slave.log_tail()}"
        assert results[_SCENARIO]["ok"], results[_SCENARIO]["error"]

    return run


def _python(group: Group, _scratch: Path) -> None:
    probe.create_topic(group.master.address, "wlost-python", queues=4)
    probe.wait("route", lambda: probe.has_route(group.name_server, "wlost-python"), seconds=30)
    for number in range(200):
        assert group.master.talk.send("wlost-python", f"{number}".encode(), queue_id=number % 4).code == OK

    async def consume() -> set[bytes]:
        few = ConsumerOptions(pull_threshold_for_queue=4, pull_batch_size=4, poll_name_server_interval=1000)
        found: set[bytes] = set()
        consumer = Consumer(
            group.name_server, group="wlost", subscribe={"wlost-python": "*"}, start_from="first", options=few
        )
        async with consumer, asyncio.timeout(90):
            async for message in consumer:
                if not found:
                    await asyncio.to_thread(_lose_master, group, "wlost-python")
                found.add(message.body)
                if len(found) == 200:
                    return found
        return found

    assert len(asyncio.run(consume())) == 200
