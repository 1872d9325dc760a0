"""What people see: tables that fit, and no text of strangers that commands a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import re
from typing import Any

import pytest
from rich.cells import cell_len

from flaremq import sync
from flaremq.cli import output as out
from flaremq.message.message import Message
from flaremq.testing import EphemeralBroker
from flaremq.visible import visible
from tests.support.admin_cli import Shell
from tests.support.cli import flaremq

EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b2J\r\u202eback"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def printed(rows: list[dict[str, Any]], output: str, **named: Any) -> str:
    stream = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(stream, encoding="utf-8")) as stdout:
        out.print_rows(rows, output, **named)
        stdout.flush()
        return stream.getvalue().decode()


@pytest.mark.parametrize("body", ["x" * 500, "中文" * 200], ids=["ascii", "chinese"])
def test_narrow_table_shortens_texts_and_never_a_number_or_a_time(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {"broker": "broker-a", "queue": 3, "offset": 1234567, "stored": "2026-11-16 17:06:59"}
    header, line = printed([{**row, "tags": "a" * 40, "keys": body, "body": body}], out.TABLE).splitlines()
    assert header.split() == ["broker", "queue", "offset", "stored", "tags", "keys", "body"]
    assert line.split()[:5] == ["broker-a", "3", "1234567", "2026-11-16", "17:06:59"]
    assert cell_len(line) <= 80 and "…" in line


def test_a_body_is_shortened_before_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {"queue": 3, "offset": 1234567, "keys": "订单-" + "7" * 35, "body": "正文" * 10}
    line = printed([row], out.TABLE).splitlines()[1]
    assert row["keys"] in line and line.rstrip().endswith("…")


def test_an_id_is_whole_in_a_narrow_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {"id": "7F0000016D866A5844D760853BAB8A21", "since": "2026-11-16 17:06:59", "topic": "a" * 40, "tries": 3}
    line = printed([row | {"keys": "k" * 30, "body": "b" * 99}], out.TABLE).splitlines()[1]
    assert row["id"] in line and row["since"] in line and cell_len(line) <= 80


def test_title_is_no_markup() -> None:
    assert "group [bold]x" in printed([{"a": 1, "b": "wide enough"}], out.TABLE, title="group [bold]x")


@pytest.mark.parametrize("output", [out.TABLE, out.JSON, out.JSONL])
def test_no_control_character_of_a_row_reaches_the_output(output: str) -> None:
    text = printed([{"tags": EVIL, "more": {"k": EVIL}}], output, title=EVIL)
    if output == out.TABLE:
        assert not CONTROL.search(text)
    else:
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", text.replace("\n", ""))
        found = json.loads(text)
        assert (found[0] if output == out.JSON else found)["tags"] == EVIL, "a program gets what was sent"


def test_visible_text_is_left_alone() -> None:
    assert visible("订单 paid – ok") == "订单 paid – ok"
    assert visible("a\nb\x1b", keep="\n") == "a\nb\\u001b"
    assert visible("\U000e0001") == "\\U000e0001"


@pytest.fixture(scope="module")
def hostile(cluster: EphemeralBroker) -> Shell:
    shell = Shell(cluster)
    with sync.Admin(cluster.name_server) as admin:
        admin.create_topic("Hostile", read_queues=1, write_queues=1)
    with sync.Producer(cluster.name_server, group="hostile") as producer:
        message = Message("Hostile", EVIL.encode(), tags="\x1b[7m", keys=["k\x9b"], properties={"p": EVIL})
        producer.send(message)
    return shell


@pytest.mark.parametrize(
    "command",
    [
        ("message", "print", "Hostile", "-o", "table"),
        ("message", "query", "Hostile", "--key", "k\x9b", "-o", "table"),
        ("message", "get", "Hostile", "--queue-id", "0", "--offset", "0", "--track", "-o", "table"),
        ("message", "tail", "Hostile", "--from", "earliest", "--max", "1", "-o", "table"),
        ("mqadmin", "printMsg", "-t", "Hostile"),
        ("mqadmin", "queryMsgByKey", "-t", "Hostile", "-k", "k\x9b"),
        ("topic", "route", EVIL),
        ("mqadmin", "topicRoute", "-t", EVIL),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_command_lets_a_message_or_an_error_command_the_terminal(hostile: Shell, command: tuple[str, ...]) -> None:
    done = hostile.run(*command)
    assert not CONTROL.search(done.out) and not CONTROL.search(done.err)
    assert done.out or done.err


def test_times_and_tracks_of_one_message_are_readable(hostile: Shell) -> None:
    printed = hostile.ok("message", "get", "Hostile", "--queue-id", 0, "--offset", 0, "--track", "-o", "table")
    stored = next(line for line in printed.splitlines() if "storeTimestamp" in line)
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", stored)
    assert '{"group"' not in printed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    done = flaremq("completion", shell)
    assert done.code == 0 and "_FLAREMQ_COMPLETE" in done.out


def test_topics_are_completed_from_the_name_server(hostile: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_FLAREMQ_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "flaremq topic status Hos")
    monkeypatch.setenv("COMP_CWORD", "3")
    for address, expected in ((hostile.name_server, "plain,Hostile"), ("127.0.0.1:1", "")):
        monkeypatch.setenv("NAMESRV_ADDR", address)
        done = flaremq()
        assert expected in done.out and done.err == ""
