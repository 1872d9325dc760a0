"""The guard's word on sends that compiled code has taken apart: yes only where each of them alone would be let in."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path
from typing import Any

import pytest

from flaremq.access import guard
from flaremq.access.guard import GuardRules
from flaremq.access.judge import Account
from flaremq.protocol.signing import SigningKey
from tests.access.test_guard import APP, OFF, ROOT, SECRET, Gate, Peer, send


def _admitted(
    gate: Gate,
    peer: Peer,
    *,
    name: str = "app",
    topic: str = "both",
    secret: bytes = SECRET.encode(),
    contents: tuple[bytes, ...] = (b"one", b"two"),
    broken: int | None = None,
) -> bool:
    signatures = [base64.b64encode(hmac.digest(secret, content, "sha1")) for content in contents]
    if broken is not None:
        signatures[broken] = signatures[broken][:-2] + b"A="
    views = [memoryview(content) for content in contents]
    return gate.guard.admits_sends(peer, name, topic, signatures, views)  # type: ignore[arg-type]  # a peer of tests


def test_sends_that_are_signed_by_who_may_are_let_in(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    assert _admitted(gate, Peer())
    assert _admitted(gate, Peer(), name="root", topic="any", secret=ROOT.secret, contents=(b"3",))


@pytest.mark.parametrize("broken", [0, 1])
def test_one_wrong_signature_is_enough(broken: int, tmp_path: Path) -> None:
    assert not _admitted(Gate(tmp_path), Peer(), broken=broken)


@pytest.mark.parametrize("topic", ["denied", "%RETRY%good", "%DLQ%good", "%RETRY%bad", "%any"])
def test_other_topics_are_looked_at_one_by_one(topic: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.judge.allowed["app"] = {("Topic:both", "PUB"), ("Topic:%any", "PUB"), ("Topic:%RETRY%bad", "PUB")}
    assert not _admitted(gate, Peer(), topic=topic)


def test_nobody_is_let_in_who_would_not_be_alone(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.judge.allowed["off"] = gate.judge.allowed["app"]
    assert not _admitted(gate, Peer(), name="off", secret=OFF.secret)
    assert not _admitted(gate, Peer(), name="unknown")
    assert not _admitted(gate, Peer(), name="")
    assert not _admitted(gate, Peer("10.1.2.3:1"))
    assert not _admitted(Gate(tmp_path, dated=True), Peer())


def test_whether_an_account_exists_takes_no_other_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much is signed anew for a name that nobody has as for one that somebody has and cannot prove."""
    signed: list[int] = []

    class CountingKey(SigningKey):
        def sign(self, signed_content: Any) -> bytes:
            signed.append(len(signed_content))
            return super().sign(signed_content)

    monkeypatch.setattr(guard, "SigningKey", CountingKey)
    gate, took = Gate(tmp_path), {}
    for name in ("app", "off", "root", "unknown"):
        signed.clear()
        assert not _admitted(gate, Peer(), name=name, secret=b"a-guess", contents=(b"one" * 1000, b"two"))
        took[name] = list(signed)
    assert all(lengths == [3000] for lengths in took.values()), took


def test_what_another_connection_sent_is_no_send_of_this_one(tmp_path: Path) -> None:
    gate, first = Gate(tmp_path), Peer("127.0.0.1:1")
    assert _admitted(gate, first)
    assert _admitted(gate, first)  # who gets no answer tries again
    assert not _admitted(gate, Peer("127.0.0.1:2"), contents=(b"new", b"two"))
    first.close()
    assert _admitted(gate, Peer("127.0.0.1:3"))
    assert not _admitted(gate, Peer("10.1.2.3:1", encrypted=True))


def test_what_was_sent_the_plain_way_is_remembered_the_compiled_way(tmp_path: Path) -> None:
    from flaremq.protocol.signing import SIGNATURE, content

    gate, command = Gate(tmp_path), send()
    assert gate.check(Peer("127.0.0.1:1"), command) is None
    fields = {name: str(value) for name, value in (command.ext or {}).items()}
    signed = content(fields, command.body_bytes)
    assert base64.b64encode(hmac.digest(APP.secret, signed, "sha1")).decode() == fields[SIGNATURE]
    assert not _admitted(gate, Peer("127.0.0.1:2"), contents=(signed,))


def test_sends_are_open_to_every_account_where_an_option_says_so(tmp_path: Path) -> None:
    for rules in (GuardRules(authorizes=False), GuardRules(open_codes=frozenset((310,)))):
        assert _admitted(Gate(tmp_path, rules=rules), Peer(), topic="denied")
        assert not _admitted(Gate(tmp_path, rules=rules), Peer(), topic="denied", broken=0)


def test_a_send_is_noted_as_that_of_its_account(tmp_path: Path) -> None:
    gate, peer = Gate(tmp_path), Peer()
    gate.judge.accounts["other"] = Account("other", b"other-secret-1", is_super=True)
    assert _admitted(gate, peer, name="other", secret=b"other-secret-1")
    assert gate.guard.account_of(peer) == "other"  # type: ignore[arg-type]
