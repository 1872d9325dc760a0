"""Calls of gRPC at the guard of all ports: over the wire, where nobody has thought of a call, and what is pushed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.text_format import Parse

from flaremq.access.callers.caller_guard import Registered
from flaremq.access.needs import Action, ResourceType
from flaremq.access.options import AccessOptions
from flaremq.access.rules import Surroundings, need
from flaremq.grpc.call import Call
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import METHODS, Method, Shape
from flaremq.proxy.options import ProxyOptions
from flaremq.proxy.service import ProxyService
from tests.access.attack_lab import lab, secret_of
from tests.access.grpc_caller import Place, call_of, guard_of_calls, proof_of
from tests.access.test_call_table import CALLS
from tests.access.test_guard import APP, ROOT, Gate
from tests.support.fake_connection import FakeConnection
from tests.support.grpc_lab import METADATA, Client, client_of
from tests.support.ports import free_ports

_STRANGERS = (("", b""), ("nobody", b"a secret"), ("victim", b"a wrong secret"))


async def _status(client: Client, name: str, proof: dict[str, str]) -> int:
    """The status in the first reply to a call of the table."""
    method = METHODS[name.partition(" ")[0]]
    request: Any = Parse(CALLS[name][0], method.request())
    settings = {"metadata": (*METADATA, *proof.items()), "timeout": 20}
    if method.shape is Shape.UNARY:
        reply = await client.unary(method.name, request, **settings)
    else:
        reply = await client.stream(method.name, request, **settings).read()
    return int(reply.status.code)


def test_no_call_reaches_a_broker_without_its_proof_and_its_rights(tmp_path: Path) -> None:
    """The requests are about a topic and a group that none of these accounts may use."""

    async def run() -> list[str]:
        port, passed = free_ports(), []
        async with lab(tmp_path, grpc_port=port), client_of(port) as client:
            for name, (_, needs) in CALLS.items():
                callers = [*_STRANGERS, *([("attacker", secret_of("attacker").encode())] if needs else [])]
                for user, secret in callers:
                    status = await _status(client, name, proof_of(user, secret))
                    passed += [f"{name} of {user!r}: {status}"] if status != Code.UNAUTHORIZED else []
            own = await _status(client, "QueryRoute", proof_of("root", secret_of("root").encode()))
            assert own == Code.TOPIC_NOT_FOUND
        return passed

    assert asyncio.run(run()) == []


def test_a_call_without_a_row_is_for_super_users_only(tmp_path: Path) -> None:
    method = Method("Shutdown", classes.HeartbeatRequest, classes.HeartbeatResponse, METHODS["Heartbeat"].shape)
    answers = {}
    for account in (APP, ROOT):
        guard, place = guard_of_calls(Gate(tmp_path).guard), Place()
        call = call_of("Shutdown", account.name, account.secret)
        assert guard.identify(call, place) is None
        answers[account.name] = guard.allow(method, classes.HeartbeatRequest(), call, place)
    assert answers["root"] is None
    assert answers["app"] is not None and answers["app"][0] == Code.UNAUTHORIZED


@pytest.mark.parametrize(
    ("topic", "needed"),
    [
        ("%RETRY%good_open", "Cluster:cc"),
        ("%RETRY%good", "Group:good"),
        ("%RETRY%my_group+open", "Group:my_group"),
        ("%DLQ%my_group", "Group:my_group"),
    ],
)
def test_a_proxy_lets_nobody_near_retries_that_may_be_of_either_of_two_groups(topic: str, needed: str) -> None:
    """``good_open``, or POP's of ``good`` for ``open``: a broker knows which groups there are, a proxy does not."""
    around = Surroundings("cc", knows_names=False)
    assert str(need(ResourceType.TOPIC, topic, (Action.SUB,), around, consumer="good_o")) == needed


def test_a_proxy_says_that_it_knows_no_names(tmp_path: Path) -> None:
    access = AccessOptions(authentication_enabled=True)
    options = ProxyOptions(namesrv_addr="127.0.0.1:9876", proxy_home=str(tmp_path), access=access)
    control = ProxyService(options)._access_control()
    assert not control.guard._around.knows_names


def test_who_is_trusted_by_its_address_is_shown_half_messages(tmp_path: Path) -> None:
    gate, connection = Gate(tmp_path), FakeConnection()
    gate.judge.trusted = ("10.0.0.7",)
    call = Call("Telemetry", {"authorization": "MQv2-HMAC-SHA1 Credential=app"}, peer="10.0.0.7:4711")
    assert guard_of_calls(gate.guard).identify(call, Place()) is None
    connection.visitor = Registered.at(call.peer, call.account)  # type: ignore[attr-defined]  # of real connections
    assert gate.guard.may_send(connection, "both")  # type: ignore[arg-type]  # a peer of tests
    gate.judge.trusted = ()
    assert not gate.guard.may_send(connection, "both")  # type: ignore[arg-type]
