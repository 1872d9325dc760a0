"""The SQL prompt: statements that end with ``;``, printed as tables; history; errors as one sentence."""

from __future__ import annotations

import itertools
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TextIO

from flaremq.errors import FlareMQError
from flaremq.pipeline.jobs.sql.output import Rows, csv_lines, json_array, json_lines, table_lines
from flaremq.pipeline.jobs.tasks import error_in_text

_HELP = "Statements end with ;  \\q leaves, \\d lists the views. Views: messages, queues, groups, index."
_HISTORY_MAX = 1000
# Quoted text and comments, so that a ; within does not end a statement.
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;|[^;'\"`/-]+|.", re.S)

Show = Callable[[Rows], Iterator[str]]


class Views(Protocol):
    """What statements are asked of: ``SqlViews`` of Spark or ``DuckViews``."""

    def run(self, statement: str, *, once: bool = False) -> Any: ...

    def describe(self) -> dict[str, dict[str, str]]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def sql_prompt(
    open_views: Callable[[], Views],
    *,
    show: Show = table_lines,
    read_line: Callable[[str], str] = input,
    out: TextIO | None = None,
    history: str | None = None,
) -> None:
    """Ask for statements until ``\\q`` or the end of input; ``history`` is the file that remembers them."""
    target = out or sys.stdout
    save_history = _with_history(history) if read_line is input else None
    try:
        with quiet_spark(), open_views() as views:
            print(_HELP, file=target)
            for statement in read_statements(read_line):
                for line in run_statement(views, statement, show):
                    print(line, file=target, flush=True)
    finally:
        if save_history is not None:
            save_history()


def run_script(open_views: Callable[[], Views], lines: Iterable[str], show: Show) -> Iterator[str]:
    """What the statements of a text print, with nothing around it; the first one that fails ends it."""
    statements = script_statements(lines)
    first = next(statements, None)
    if first is None:
        return  # nothing asked: no session for it
    with quiet_spark(), open_views() as views:
        for statement in itertools.chain((first,), statements):
            with statement_errors():
                yield from show(views.run(statement, once=True))


def script_statements(lines: Iterable[str]) -> Iterator[str]:
    """Statements as they are completed; what follows the last ``;`` is one if it is more than a comment."""
    pending = ""
    for line in lines:
        statements, pending = split_statements(pending + line)
        yield from statements
    if any(token.strip() and not token.startswith(("--", "/*")) for token in _TOKEN.findall(pending)):
        yield pending.strip()


@contextmanager
def statement_errors() -> Iterator[None]:
    """Within, what is wrong with a statement is raised as an error of ours, in a sentence."""
    try:
        yield
    except FlareMQError:
        raise
    except Exception as error:  # Spark's own, and Py4J's around those of tasks
        raise error_in_text(str(error)) or FlareMQError(sql_error(error)) from error


@contextmanager
def quiet_spark() -> Iterator[None]:
    """Within, PySpark does not log a page of JSON for a typing error, which is told in a sentence instead."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def run_statement(views: Views, statement: str, show: Show = table_lines) -> Iterator[str]:
    """The lines a statement prints; what is wrong with it is one of them."""
    try:
        if statement == "\\d":
            for name, columns in views.describe().items():
                yield f"{name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"
            return
        with statement_errors():
            yield from show(views.run(statement, once=True))
    except KeyboardInterrupt:
        yield "interrupted"
    except FlareMQError as error:
        yield f"error: {error}"


def sql_error(error: Exception) -> str:
    """What Spark says, without plans and stacks; an error of ours in it as itself."""
    text = str(error)
    ours = error_in_text(text)
    if ours is not None:
        return str(ours)
    if "Traceback (most recent call last)" in text:  # of a Python worker: how it ended says it all
        ends = [line.strip() for line in text.partition("Traceback")[2].splitlines() if re.match(r"[\w.]+: ", line)]
        if ends:
            return ends[-1]
    lines = []
    for line in text.strip().splitlines():
        if line.startswith(("'", "+-", "== SQL", "JVM stacktrace", "\tat ", "Traceback")) or line.strip() == "":
            break
        lines.append(line.strip())
    return " ".join(lines) or type(error).__name__


def read_statements(read_line: Callable[[str], str]) -> Iterator[str]:
    """Statements as they are completed; Ctrl-C drops what is typed so far."""
    pending = ""
    while True:
        try:
            line = read_line("     > " if pending.strip() else "flaremq> ")
        except EOFError:
            if pending.strip():
                yield pending.strip()
            return
        except KeyboardInterrupt:
            pending = ""
            continue
        command = line.strip().rstrip(";").strip()
        if not pending.strip() and command in ("\\q", "quit", "exit"):
            return
        if not pending.strip() and command in ("\\d", "\\h", "help"):
            yield "\\d"
            continue
        statements, pending = split_statements(pending + line + "\n")
        yield from statements


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that a text completes, and the rest of it."""
    done: list[str] = []
    current = ""
    for token in _TOKEN.findall(text):
        if token == ";":
            if current.strip():
                done.append(current.strip())
            current = ""
        else:
            current += token
    return done, current


def show_as(output: str) -> Show:
    """How results are printed: ``table``, ``jsonl``, ``json`` or ``csv``."""
    return {"table": table_lines, "jsonl": json_lines, "json": json_array, "csv": csv_lines}[output]


def _with_history(path: str | None) -> Callable[[], None] | None:
    try:
        import readline
    except ImportError:
        return None  # some systems have none; the prompt works without
    if path is None:
        return None
    try:
        readline.read_history_file(path)
    except OSError:
        pass
    readline.set_history_length(_HISTORY_MAX)

    def save() -> None:
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            readline.write_history_file(path)
        except OSError:
            pass  # a read-only home is no reason to fail

    return save
