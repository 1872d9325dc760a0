"""Three ways to print a result: a table for people, JSON for programs, JSON lines for streams.

Without ``-o`` the terminal decides: a table on one, JSON (or JSON lines for results of any length) in a pipe.
Only results go to stdout. Progress, warnings and errors go to stderr, so a pipe stays parsable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import click

from flaremq.cli import failure

JSON = "json"
JSONL = "jsonl"
TABLE = "table"
_TABLE_ROWS = 200  # rows whose width is weighed together; a stream of any length is printed in such pieces


def chosen(output: str | None, *, in_pipe: str) -> str:
    """The format to use."""
    return output or (TABLE if sys.stdout.isatty() else in_pipe)


def to_json(value: object, *, indent: bool = False) -> bytes:
    import orjson

    return orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else 0)


def print_json(value: object) -> None:
    """One indented JSON document."""
    write(to_json(value, indent=True) + b"\n")


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    output: str,
    *,
    columns: Sequence[str] = (),
    title: str | None = None,
) -> None:
    """A stream of objects in the format chosen; ``columns`` are those of the table."""
    if output == JSONL:
        _print_lines(rows)
    elif output == JSON:
        _print_array(rows)
    else:
        _print_table(iter(rows), columns, title)


def print_record(record: Mapping[str, Any], *, title: str | None = None) -> None:
    """One object as a table of two columns."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False, box=None, title_justify="left")
    for name, value in record.items():
        table.add_row(name, _cell(value))
    Console().print(table)


def write(data: bytes) -> None:
    """Bytes to stdout, past any text wrapper."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        raise failure.ReaderGoneError from None


def note(text: str) -> None:
    """One line for people, beside the result."""
    click.echo(text, err=True)


def _print_lines(rows: Iterable[Mapping[str, Any]]) -> None:
    iterator = iter(rows)
    # Written in blocks: a dump of millions of messages should not pay for a system call each.
    while block := list(islice(iterator, 256)):
        write(b"".join(to_json(row) + b"\n" for row in block))


def _print_array(rows: Iterable[Mapping[str, Any]]) -> None:
    separator = b"[\n"
    for row in rows:
        write(separator + to_json(row))
        separator = b",\n"
    write(b"[]\n" if separator == b"[\n" else b"\n]\n")


def _print_table(rows: Iterator[Mapping[str, Any]], columns: Sequence[str], title: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    is_first = True
    while block := list(islice(rows, _TABLE_ROWS)):
        table = Table(title=title if is_first else None, show_header=is_first, box=None, title_justify="left")
        for column in columns or block[0]:
            # Text may be cut to fit the terminal, a number never: a cut number is a wrong number.
            if all(isinstance(row.get(column), int) for row in block):
                width = max(len(str(row[column])) for row in block)
                table.add_column(column, justify="right", min_width=width)
            else:
                table.add_column(column, no_wrap=True)
        for row in block:
            table.add_row(*(_cell(row.get(column)) for column in columns or block[0]))
        console.print(table)
        is_first = False
    if is_first and title is not None:
        console.print(f"{title}: none")


def _cell(value: object) -> Any:
    from rich.text import Text  # plain text: "[bold]" in a message body is no markup

    if value is None:
        return Text("-", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, dict | list):
        return Text(to_json(value).decode())
    return Text(str(value))
