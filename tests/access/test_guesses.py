"""Whoever guesses a secret from another machine gets no further by opening more connections, and stops nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flaremq.access import guard
from flaremq.access.attempts import Attempts
from flaremq.access.guard import GuardRules
from flaremq.access.judge import Account
from flaremq.client.errors import reply_error
from flaremq.clock import ManualClock
from flaremq.errors import UnavailableReplyError
from flaremq.protocol.signing import SigningKey
from tests.access.test_guard import APP, OFF, ROOT, Gate, Peer, request, send

_FROM = "10.1.2.3"
_GUESS = Account("app", b"another-guess")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path, rules=GuardRules(without_tls=True))


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """One entry for each signature that the guard made to compare one with."""
    made: list[int] = []

    class CountingKey(SigningKey):
        def sign(self, signed_content: Any) -> bytes:
            made.append(len(signed_content))
            return super().sign(signed_content)

    monkeypatch.setattr(guard, "SigningKey", CountingKey)
    yield made


def _at_once(work: Callable[[], Any]) -> Any:
    """Late answers need a loop; nobody waits for them here."""

    async def run() -> Any:
        return work()

    return asyncio.run(run())


def _guess(gate: Gate, number: int, *, host: str = _FROM, account: Account = _GUESS) -> Peer:
    peer = Peer(f"{host}:{number}")
    assert gate.check(peer, send(account=account)) is not None
    return peer


def _guess_often(gate: Gate, *, host: str = _FROM, account: Account = _GUESS) -> None:
    _at_once(lambda: [_guess(gate, number, host=host, account=account) for number in range(1, 101)])


def test_each_guess_over_a_connection_of_its_own_is_one_of_the_same_few(gate: Gate, looked_at: list[int]) -> None:
    _guess_often(gate)
    assert len(looked_at) == 10
    gate.clock.advance(5_000)
    _guess_often(gate)
    assert len(looked_at) == 10
    gate.clock.advance(6_000)
    _guess_often(gate)
    assert len(looked_at) == 20


def test_the_right_secret_is_not_looked_at_either_and_is_later(gate: Gate) -> None:
    """Or who guesses would see by the answer, or by its coming at once, that this was the one."""
    _guess_often(gate)
    wrong, right = Peer(f"{_FROM}:998"), Peer(f"{_FROM}:999")

    def both() -> None:
        gate.check(wrong, send(account=_GUESS))
        gate.check(right, send())

    _at_once(both)
    assert [reply.remark for reply in right.replies] == [reply.remark for reply in wrong.replies]
    assert "too many wrong signatures of this account came from 10.1.2.3" in str(right.replies[0].remark)
    assert reply_error(right.replies[0], "a send", _FROM).__class__ is UnavailableReplyError  # it may be tried again
    assert right.closed
    gate.clock.advance(11_000)
    assert gate.check(Peer(f"{_FROM}:1000"), send()) is None


def test_the_compiled_way_looks_at_no_more(gate: Gate, looked_at: list[int]) -> None:
    _guess_often(gate)
    looked_at.clear()
    admits: Any = gate.guard.admits_sends
    assert not admits(Peer(f"{_FROM}:7"), "app", "both", [b"x"], [memoryview(b"x")])
    assert looked_at == []


def test_who_has_proven_the_account_before_goes_on(gate: Gate) -> None:
    plain, compiled = Peer(f"{_FROM}:5000"), Peer(f"{_FROM}:5001")
    assert gate.check(plain, send()) is None
    admits: Any = gate.guard.admits_sends
    signature = SigningKey(APP.secret).sign(b"content")
    assert admits(compiled, "app", "both", [signature], [memoryview(b"content")])
    _guess_often(gate)
    assert gate.check(plain, send("both")) is None
    assert admits(compiled, "app", "both", [signature], [memoryview(b"content")])
    # The other account of that connection is another's guess.
    _guess_often(gate, account=Account("root", b"another-guess"))
    assert _at_once(lambda: gate.check(plain, send(account=ROOT))) is not None


def test_other_addresses_and_this_machine_go_on(gate: Gate) -> None:
    _guess_often(gate)
    question = request(30, {"topic": "both"})
    assert gate.check(Peer("10.1.2.4:1"), question) is None
    _guess_often(gate, host="127.0.0.1")
    assert gate.check(Peer("127.0.0.1:999"), question) is None


def test_a_name_that_nobody_has_is_shut_out_as_one_that_is_disabled_or_real(gate: Gate) -> None:
    remarks = {}
    for name in ("app", "off", "unknown"):
        _guess_often(gate, host=f"10.0.{len(remarks)}.1", account=Account(name, b"another-guess"))
        peer = Peer(f"10.0.{len(remarks)}.1:999")
        _at_once(lambda peer=peer, name=name: gate.check(peer, send(account=Account(name, OFF.secret))))
        remarks[name] = str(peer.replies[0].remark).replace(peer.peer.partition(":")[0], "there")
    assert len(set(remarks.values())) == 1


def test_other_accounts_of_an_address_go_on() -> None:
    clock = ManualClock()
    attempts = Attempts(clock.monotonic)
    for _ in range(100):
        attempts.guessed(_FROM, "app")
    assert attempts.guesses_too_often(_FROM, "app")
    others = [attempts.guesses_too_often(_FROM, f"account-{number}") for number in range(640)]
    assert sum(others) < 64


def test_the_addresses_of_one_network_of_ipv6_are_one() -> None:
    clock = ManualClock()
    attempts = Attempts(clock.monotonic)
    for number in range(100):
        attempts.guessed(f"2001:db8::{number:x}", "app")
    assert attempts.guesses_too_often("2001:db8::ffff:1", "app")
    assert not attempts.guesses_too_often("2001:db8:0:1::1", "app")
    waits = [attempts.failed(f"2001:db8:0:2::{number:x}", "wrong signature") for number in range(12)]
    assert waits[-1] < 0
    assert attempts.failed("::1", "wrong signature") == 0


def test_what_is_remembered_of_guesses_has_an_end() -> None:
    clock = ManualClock()
    attempts = Attempts(clock.monotonic)
    for number in range(30_000):
        attempts.guessed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "app")
    assert len(attempts._guesses) <= 10_000
    for _ in range(1_000):
        attempts.guessed(_FROM, "app")
    assert len(attempts._guesses[next(reversed(attempts._guesses))]) == 10
