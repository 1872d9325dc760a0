"""What is remembered of requests that change something, so that nobody can make the change a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.access import once
from flaremq.access.judge import Account
from flaremq.access.replay import WINDOW_MS
from flaremq.protocol.command import BINARY_HEADER, RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import SIGNATURE, signed
from tests.access.test_guard import APP, ROOT, SECRET, Gate, Peer, request, time_of

_OTHER = Account("other", b"other-secret-1", is_super=True)


def _change(gate: Gate, account: Account = ROOT, topic: str = "t") -> RemotingCommand:
    """A change asked for by our client, at the gate's present time."""
    command = request(17, {"topic": topic}, account=account, dated=True)
    gate.clock.jump(time_of(command) - gate.clock.now_ms())
    return command


def test_what_others_send_makes_no_change_repeatable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flaremq.access.replay._GENERATION_MAX", 8)
    gate = Gate(tmp_path)
    gate.judge.accounts["other"] = _OTHER
    change = _change(gate)
    assert gate.check(Peer(), change) is None
    for number in range(20):
        assert gate.check(Peer(), _change(gate, _OTHER, f"t{number}")) is None
        gate.check(Peer(), request(30, {"topic": "both", "n": str(number)}, dated=True))
    assert gate.check(Peer("127.0.0.1:2"), change).code == 16


def test_numbers_that_were_forgotten_are_not_taken_again() -> None:
    numbers = once.Once(0)
    for number in range(1, 3 * once.GENERATION_MAX):
        assert numbers.admits(f"n{number}", number, number)
    for number in range(1, 3 * once.GENERATION_MAX, 97):
        assert not numbers.admits(f"n{number}", number, 3 * once.GENERATION_MAX)
    assert len(numbers) <= 2 * once.GENERATION_MAX


def test_a_change_that_was_signed_before_the_server_started_is_refused(tmp_path: Path) -> None:
    command = request(17, {"topic": "t"}, account=ROOT, dated=True)
    gate = Gate(tmp_path, now_ms=time_of(command) + 1000)
    assert "before this server started" in gate.check(Peer(), command).remark


def test_the_number_of_one_account_says_nothing_about_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sees a request on its way must not use up its number before it arrives."""
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123456789abcdef")
    gate = Gate(tmp_path)
    own = request(30, {"topic": "both"}, dated=True)
    gate.clock.jump(time_of(own) - gate.clock.now_ms())
    assert gate.check(Peer(), request(30, {"topic": "both"}, account=ROOT, dated=True)) is None
    assert gate.check(Peer(), own) is None
    assert gate.check(Peer(), own).code == 16


def test_a_clock_that_is_ahead_gives_no_second_use(tmp_path: Path) -> None:
    """A time may be off in both directions: so a number counts for as long as its time fits."""
    gate = Gate(tmp_path)
    command = request(30, {"topic": "both"}, dated=True)
    gate.clock.jump(time_of(command) - WINDOW_MS + 10 - gate.clock.now_ms())
    assert gate.check(Peer(), command) is None
    for step in range(19):
        gate.clock.advance(WINDOW_MS // 10)
        gate.guard.check(Peer(), request(30, {"topic": "both", "n": str(step)}, dated=True), is_served=True)
        assert gate.check(Peer(), command).remark == "the same signed request came before"


def test_a_field_that_comes_with_and_without_a_value_is_signed_with_it(tmp_path: Path) -> None:
    """In a compact header a name may stand twice: what handlers see must be what was signed."""
    gate = Gate(tmp_path)
    fields = signed({"b": "null", "a": "pg"}, b"", access_key="app", secret_key=SECRET)
    command = RemotingCommand.request(310, {**fields, "b": "both"})
    command.serialize_type = BINARY_HEADER
    frame = bytearray(encode_frame(command))
    entry = b"\0\1b\0\0\0\0"  # the field b without a value, once more
    frame += entry
    for at, size in ((0, 4), (5, 3), (8 + 17, 4)):
        old = int.from_bytes(frame[at : at + size], "big")
        frame[at : at + size] = (old + len(entry)).to_bytes(size, "big")
    (decoded,) = FrameDecoder().receive(bytes(frame))
    assert decoded.ext is not None and decoded.ext["b"] == "both" and decoded.null_fields == ("b",)
    assert gate.check(Peer(), decoded).remark == "check signature failed."
    assert SIGNATURE in decoded.ext and APP.name == decoded.ext["AccessKey"]
