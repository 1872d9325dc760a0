"""The audit log under attack: nobody floods it, nobody writes lines of his own into it, and no change is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from flaremq.access.audit import AuditLog
from flaremq.access.judge import Account
from flaremq.clock import ManualClock
from tests.access.test_guard import ROOT, Gate, Peer, request, send


def _lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_names_made_up_by_a_stranger_hide_no_refusal_of_an_account(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    for number in range(5_000):
        gate.check(Peer(), request(10_000 + number, account=Account(f"made-up-{number}", b"x")))
        gate.check(Peer(), request(10_000 + number, account=None))
    gate.check(Peer(), send("denied"))
    lines = gate.audited()
    assert [line["rule"] for line in lines] == ["unknown account", "no name", "no policy"]
    gate.clock.advance(61_000)
    gate.check(Peer(), send(account=Account("made-up", b"x")))
    assert gate.audited()[-1]["further"] == 4_999


def test_addresses_made_up_hide_no_change(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"), ManualClock().now_ms)
    for number in range(20_000):
        log.refused(user="", address=f"fe80::{number:x}", code=10, what="", rule="no name")
    log.change(user="root", address="127.0.0.1", code=17, what="topic=t", result=0)
    log.write()
    lines = _lines(tmp_path / "audit.log")
    assert lines[-1]["event"] == "change"
    assert len(lines) < 10_001
    assert log.lost > 0


@pytest.mark.parametrize("text", ['a"}\n{"event":"change"', "\r\n\x00\x1b[2J", "\u2028\u202e", "\ud800", "x" * 60_000])
def test_what_peers_send_is_one_line_of_bounded_length(text: str, tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"), ManualClock().now_ms)
    log.refused(user=text, address=text, code=10, what=text, rule=text)
    log.change(user=text, address=text, code=10, what=text, result=0)
    log.write()
    data = (tmp_path / "audit.log").read_bytes()
    assert data.count(b"\n") == 2
    assert all(len(line) < 8_192 for line in data.splitlines())
    assert [line["event"] for line in _lines(tmp_path / "audit.log")] == ["refused", "change"]


def test_no_line_gets_lost_while_others_are_written(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"), ManualClock().now_ms)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            log.write()

    writer = threading.Thread(target=write)
    writer.start()
    for number in range(5_000):
        log.change(user="root", address="127.0.0.1", code=17, what=f"topic={number}", result=0)
    done.set()
    writer.join()
    log.write()
    assert [line["what"] for line in _lines(tmp_path / "audit.log")] == [f"topic={number}" for number in range(5_000)]


def test_a_disk_that_fails_loses_no_change_and_keeps_the_order(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    folder.write_text("in the way")
    log = AuditLog(str(folder / "audit.log"), ManualClock().now_ms)
    log.change(user="root", address="127.0.0.1", code=17, what="first", result=0)
    log.write()
    log.change(user="root", address="127.0.0.1", code=17, what="second", result=0)
    folder.unlink()
    log.write()
    assert [line["what"] for line in _lines(folder / "audit.log")] == ["first", "second"]


def _change_of(gate: Gate, code: int, ext: dict[str, str], body: bytes) -> str:
    from flaremq.protocol.command import RemotingCommand
    from flaremq.remoting.handlers import HandlerTable

    table = HandlerTable()
    table.register(code, lambda *_: RemotingCommand.response())
    gate.guard.install(table)
    peer: Any = Peer()
    command = request(code, ext, body, account=ROOT)
    assert gate.check(peer, command) is None
    table.entries[code][0](peer, command)
    (line,) = gate.audited()
    assert (line["event"], line["user"], line["code"]) == ("change", "root", code)
    return str(line["what"])


def test_a_change_of_options_names_them_without_their_values(tmp_path: Path) -> None:
    body = b'# c\ninitAuthenticationUser={"password":"hidden-1"}\nfileReservedTime = 48\n'
    what = _change_of(Gate(tmp_path), 25, {}, body)
    assert "initAuthenticationUser" in what and "fileReservedTime" in what
    assert "hidden-1" not in what


def test_a_change_of_policies_tells_what_was_granted(tmp_path: Path) -> None:
    body = orjson.dumps({"policies": [{"entries": [{"resource": "Topic:*", "actions": ["Pub"], "decision": "Allow"}]}]})
    what = _change_of(Gate(tmp_path), 3006, {"subject": "User:app"}, body)
    assert "subject=User:app" in what
    assert "Topic:*" in what and "Allow" in what


def test_a_change_of_a_user_tells_its_type_and_never_its_password(tmp_path: Path) -> None:
    body = orjson.dumps({"username": "app", "password": "hidden-1", "userType": "Super"})
    what = _change_of(Gate(tmp_path), 3001, {"username": "app"}, body)
    assert "Super" in what
    assert "hidden-1" not in what


@pytest.mark.parametrize("body", [b"\xff\xfe{", b"{" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900, b"x" * 200_000])
def test_a_body_that_cannot_be_read_stops_no_line(body: bytes, tmp_path: Path) -> None:
    for code in (25, 3006, 18):
        folder = tmp_path / str(code)
        folder.mkdir()
        _change_of(Gate(folder), code, {}, body)
