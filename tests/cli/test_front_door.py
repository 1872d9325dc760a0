"""The front door: help, version, exit codes, one sentence for what goes wrong, clean ends."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from flaremq.cli import failure, main
from flaremq.cli.groups import LazyGroup
from flaremq.errors import (
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    RemoteProtocolError,
    StoreIOError,
    UnavailableError,
)
from flaremq.protocol.command import RequestError
from tests.support.cli import flaremq
from tests.support.store_lab import StoreLab


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below this one."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, (*path, name))


EVERY = dict(commands(main.flaremq))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_explains_itself_and_each_of_its_options(path: tuple[str, ...]) -> None:
    done = flaremq(*path, "--help")
    assert done.code == 0 and done.err == ""
    assert (EVERY[path].help or "").strip()
    for parameter in EVERY[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts} has no help"


def test_help_loads_nothing_heavy() -> None:
    # One process for all of them: the first command that loads something is the one that is named.
    code = (
        "import sys; from flaremq.cli.main import run\n"
        "for line in sys.argv[1:]:\n"
        "    run([*line.split(), '--help'])\n"
        "    heavy = {'numpy', 'pyarrow', 'pyspark', 'rich', 'asyncio', 'orjson'} & sys.modules.keys()\n"
        "    if heavy: sys.exit(f'{line}: {heavy}')\n"
    )
    lines = [" ".join(path) for path in EVERY]
    done = subprocess.run([sys.executable, "-c", code, *lines], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_documentation_has_a_heading_for_every_command_and_names_its_options() -> None:
    folder = Path(__file__).resolve().parents[2] / "docs"
    text = "".join((folder / name).read_text(encoding="utf-8") for name in ("cli.md", "mqadmin.md"))
    headings = [line.lstrip("#").strip().strip("`") for line in text.splitlines() if line.startswith("#")]
    for path, command in EVERY.items():
        assert " ".join(("flaremq", *path)) in headings
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert any(f"`{name}" in text for name in parameter.opts), (path, parameter.opts)


_GROUPS = {path: command for path, command in EVERY.items() if isinstance(command, click.Group)}


# `pipeline archive` and `pipeline table` do something without a command.
@pytest.mark.parametrize("group", [path for path, command in _GROUPS.items() if not command.invoke_without_command])
def test_a_group_without_a_command_shows_its_help(group: tuple[str, ...]) -> None:
    done = flaremq(*group)
    shown = done.out + done.err
    assert done.code == 2 and shown.startswith("Usage: flaremq") and "Commands:\n" in shown


def test_python_m_flaremq_is_the_same_program() -> None:
    done = subprocess.run([sys.executable, "-m", "flaremq", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == flaremq("--version").out
    assert done.stdout.startswith("flaremq ")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["stor"], "did you mean 'store'"),
        (["store", "dmp"], "did you mean 'dump'"),
        (["topic", "lst"], "did you mean 'list'"),
        (["message", "tal"], "did you mean 'tail'"),
        (["mqadmin", "topiclst"], "did you mean topicList"),
    ],
)
def test_a_misspelt_command_is_answered_with_the_nearest(arguments: list[str], hint: str) -> None:
    done = flaremq(*arguments)
    assert done.code == 2 and hint in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgumentError("bad"), 2),
        (NotFoundError("no topic x"), 1),
        (UnavailableError("busy"), 3),
        (RemoteProtocolError("odd frame"), 3),
        (RequestError(1, "the broker says no"), 3),
        (ConnectionRefusedError(111, "Connection refused"), 3),
        (CorruptionError("torn", path="/x", offset=5), 4),
        (StoreIOError("read", "/x", OSError(5, "Input/output error")), 1),
        (OSError(13, "Permission denied", "/x"), 1),
        (ZeroDivisionError("a bug"), 1),
        (click.UsageError("wrong"), 2),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_each_failure_has_its_exit_code_and_one_sentence(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def fails() -> None:
        raise error

    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: fails)
    done = flaremq("demo")
    assert (done.code, done.out) == (code, "")
    # For Ctrl-C a line break comes first, so that the sentence does not stick to the terminal's "^C".
    assert done.err.strip().count("\n") == 0 and "Traceback" not in done.err


def test_a_traceback_comes_only_when_asked_for(tmp_path: Path) -> None:
    assert "Traceback" not in flaremq("store", "info", tmp_path).err
    for arguments in (("--debug", "store", "info", tmp_path), ("store", "info", tmp_path, "--debug")):
        done = flaremq(*arguments)
        assert done.code == 2 and "Traceback" in done.err
    assert "Traceback" not in flaremq("store", "info", tmp_path).err


def test_an_internal_error_says_how_to_see_more() -> None:
    sentence = failure.sentence_of(KeyError("x"))
    assert "KeyError" in sentence and "--debug" in sentence


def test_a_reader_that_goes_away_ends_the_dump_quietly(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open(mapped_file_size_commit_log=1 << 20)
    for _ in range(300):
        lab.put(b"x" * 1000)
    lab.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "flaremq", "store", "dump", str(lab.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "flaremq", "demo", "--messages", "1000000", "--out", str(tmp_path / "demo")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()  # it has begun
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the whole group
        try:
            _, errors = process.communicate(timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what hangs must not hang the test
    assert process.returncode == 130
    # Python may warn beside it of a coroutine that had no time to start.
    assert b"interrupted" in errors.splitlines() and b"Traceback" not in errors


def test_a_terminal_gets_a_table_and_a_pipe_gets_json(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    lab.put(b"hello")
    lab.close()
    command = [sys.executable, "-m", "flaremq", "store", "dump", str(lab.root)]
    assert subprocess.run(command, capture_output=True, check=True).stdout.startswith(b'{"physicalOffset"')
    leader, follower = pty.openpty()
    subprocess.run(command, stdout=follower, stderr=follower, check=True, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the terminal is gone with its last user
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert b"hello" in shown and b"topic" in shown and b"{" not in shown
