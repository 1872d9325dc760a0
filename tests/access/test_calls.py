"""Calls of gRPC at the guard of all ports: what nobody has thought of is closed, and what is pushed to callers."""

from __future__ import annotations

from pathlib import Path

from flaremq.access.callers.caller_guard import Registered
from flaremq.grpc.call import Call
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import METHODS, Method
from tests.access.grpc_caller import Place, call_of, guard_of_calls
from tests.access.test_guard import APP, ROOT, Gate
from tests.support.fake_connection import FakeConnection


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


def test_who_is_trusted_by_its_address_is_shown_half_messages(tmp_path: Path) -> None:
    gate, connection = Gate(tmp_path), FakeConnection()
    gate.judge.trusted = ("10.0.0.7",)
    call = Call("Telemetry", {"authorization": "MQv2-HMAC-SHA1 Credential=app"}, peer="10.0.0.7:4711")
    assert guard_of_calls(gate.guard).identify(call, Place()) is None
    connection.visitor = Registered.at(call.peer, call.account)  # type: ignore[attr-defined]  # of real connections
    assert gate.guard.may_send(connection, "both")  # type: ignore[arg-type]  # a peer of tests
    gate.judge.trusted = ()
    assert not gate.guard.may_send(connection, "both")  # type: ignore[arg-type]
