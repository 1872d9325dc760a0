"""What a shell completes, and what a command asks before it does what cannot be taken back."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from flaremq.testing import EphemeralBroker
from tests.support.admin_cli import Shell

AtTerminal = Callable[[str], None]


@pytest.fixture(scope="module")
def shell(cluster: EphemeralBroker) -> Shell:
    return Shell(cluster)


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> AtTerminal:
    """A person at the terminal, and what they type."""

    def sit_down(reply: str) -> None:
        stdin = io.StringIO(reply)
        monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", stdin)

    return sit_down


def completions(shell: Shell, line: str, *, at: str | None = None) -> set[str]:
    """What bash is offered for the last word of a line."""
    environment = {
        **os.environ,
        "_FLAREMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "NAMESRV_ADDR": at or shell.name_server,
    }
    command = [sys.executable, "-m", "flaremq"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return {entry.partition(",")[2] for entry in done.stdout.split()}


def test_topics_and_groups_are_completed(shell: Shell) -> None:
    shell.ok("topic", "create", "CompletedTopic")
    shell.ok("group", "create", "completed-group")
    assert completions(shell, "flaremq topic status Compl") == {"CompletedTopic"}
    assert completions(shell, "flaremq group progress compl") == {"completed-group"}
    assert completions(shell, "flaremq group reset compl") == {"completed-group"}
    assert completions(shell, "flaremq group reset completed-group --topic Compl") == {"CompletedTopic"}
    assert completions(shell, "flaremq message resend --group compl") == {"completed-group"}
    assert "TOOLS_CONSUMER" not in completions(shell, "flaremq group progress ")
    assert completions(shell, "flaremq group progress TOOLS") == {"TOOLS_CONSUMER"}


def test_completion_is_silent_where_nobody_answers(shell: Shell) -> None:
    assert completions(shell, "flaremq group progress x", at="127.0.0.1:1") == set()


def test_deleting_a_group_asks_at_a_terminal(shell: Shell, says: AtTerminal) -> None:
    shell.ok("group", "create", "kept")
    says("n\n")
    done = shell.run("group", "delete", "kept")
    assert done.code == 1 and "Delete group kept" in done.err and "nothing was deleted" in done.err
    assert "kept" in {row["group"] for row in shell.rows("group", "list")}
    says("")
    assert shell.run("group", "delete", "kept", "--yes").code == 0


def test_a_group_that_is_not_there_is_no_question(shell: Shell, says: AtTerminal) -> None:
    says("y\n")
    done = shell.run("group", "delete", "misspelt")
    assert done.code == 1 and "does not exist" in done.err


def test_moving_a_group_says_what_it_means_and_asks(shell: Shell, says: AtTerminal) -> None:
    shell.fill("Moved", 5)
    shell.consume("mover", "Moved", 3)
    line = ("group", "reset", "mover", "--topic", "Moved", "--to", "latest")
    says("n\n")
    done = shell.run(*line)
    assert done.code == 1 and "nothing was moved" in done.err
    assert "Move group mover in Moved: 0 messages come again, 2 are skipped?" in done.err
    says("y\n")
    assert shell.run(*line).code == 0
    (row,) = [row for row in shell.rows("group", "progress", "mover") if row["topic"] == "Moved"]
    assert row["lag"] == 0
