"""Three ways to print a result: a table for people, JSON for programs, JSON lines for streams.

Without ``-o`` the terminal decides: a table on one, JSON (or JSON lines for results of any length) in a pipe.
Only results go to stdout. Progress, warnings and errors go to stderr, so a pipe stays parsable. Names and bodies come
from senders: what a terminal gets of them has no control character in it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import click

from flaremq.cli import failure
from flaremq.visible import visible

JSON = "json"
JSONL = "jsonl"
TABLE = "table"
_TEXT_WIDTHS_LEAST = (10, 4)  # what a text column is cut to, and what it is cut to when that is not enough
_BODY = "body"  # the column that is shortened before any other
_WHOLE = ("id", "address")  # columns that are not shortened: they are there to be given to another command
_TABLE_ROWS = 200  # rows whose width is weighed together; a stream of any length is printed in such pieces


def chosen(output: str | None, *, in_pipe: str) -> str:
    """The format to use."""
    return output or (TABLE if sys.stdout.isatty() else in_pipe)


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")  # in UTF-8; JSON leaves them as they are, some terminals obey them


def to_json(value: object, *, indent: bool = False) -> bytes:
    import orjson

    data = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else 0)
    return _CONTROLS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


def print_json(value: object) -> None:
    """One indented JSON document."""
    write(to_json(value, indent=True) + b"\n")


def print_object(value: Mapping[str, Any], output: str | None, show: Callable[[], None]) -> None:
    """One object in the format chosen, JSON in a pipe; ``show`` prints it for people."""
    output = chosen(output, in_pipe=JSON)
    if output == JSON:
        print_json(value)
    elif output == JSONL:
        _print_lines([value])
    else:
        show()


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    output: str | None,
    *,
    columns: Sequence[str] | Mapping[str, str] = (),
    times: Collection[str] = (),
    title: str | None = None,
) -> None:
    """A stream of objects in the format chosen, JSON lines in a pipe.

    ``columns`` are those of the table, or their headings by field; the fields in ``times`` are milliseconds.
    """
    output = chosen(output, in_pipe=JSONL)
    if output == JSONL:
        _print_lines(rows)
    elif output == JSON:
        _print_array(rows)
    elif isinstance(columns, Mapping):
        _print_table(_under_headings(rows, columns, times), (), title)
    else:
        _print_table(iter(rows), columns, title)


def headings(text: str) -> dict[str, str]:
    """Columns of a table and their headings: ``"broker, queueId=queue, maxOffset=max"``. JSON has all fields."""
    pairs = (part.partition("=") for part in text.split(", "))
    return {field: heading or field for field, _, heading in pairs}


def _under_headings(
    rows: Iterable[Mapping[str, Any]], headings: Mapping[str, str], times: Collection[str]
) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        shown = {}
        for name, heading in headings.items():
            value = row.get(name)
            shown[heading] = local_text(value) if name in times else value
            if isinstance(value, list):
                shown[heading] = ", ".join(value)
        yield shown


def local_text(milliseconds: int | None) -> str | None:
    """``2026-11-16 09:30:00`` in local time; None for no time."""
    if milliseconds is None or milliseconds <= 0:
        return None
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def print_record(record: Mapping[str, Any], *, title: str | None = None) -> None:
    """One object as a table of two columns."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=_title(title), show_header=False, box=None, title_justify="left")
    for name, value in record.items():
        table.add_row(visible(name), _cell(value))
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
    click.echo(visible(text), err=True)


def tell_of_core() -> None:
    """One line if the core is not compiled, for who starts something that lasts."""
    from flaremq import interpreted

    if text := interpreted.notice():
        note(f"flaremq: {text}")


def echo(text: str = "") -> None:
    """Lines for people, as the result."""
    click.echo(visible(text, keep="\n\t"))


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
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    console = Console()
    is_first = True
    while block := list(islice(rows, _TABLE_ROWS)):
        table = Table(title=_title(title) if is_first else None, show_header=is_first, box=None, title_justify="left")
        names = list(columns or block[0])
        cells = [[_cell(row.get(name)) for name in names] for row in block]
        numeric = [all(isinstance(row.get(name), int) for row in block) for name in names]
        natural = [max(cell_len(name), *(line[at].cell_len for line in cells)) for at, name in enumerate(names)]
        times = [all(_is_time(row.get(name)) for row in block) for name in names]
        fixed = [any(of_column) for of_column in zip(numeric, times, (name in _WHOLE for name in names), strict=True)]
        widths = _fitted(natural, fixed, console.width, first=names.index(_BODY) if _BODY in names else None)
        for name, is_number, width in zip(names, numeric, widths, strict=True):
            table.add_column(name, justify="right" if is_number else "left", no_wrap=True, width=width)
        for line in cells:
            table.add_row(*line)
        console.print(table)
        is_first = False
    if is_first and title is not None:
        console.print(_title(f"{title}: none"))


def _title(title: str | None) -> Any:
    from rich.text import Text

    return None if title is None else Text(visible(title, keep="\n"), style="table.title")


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, str) and _TIME.fullmatch(value) is not None)


def _fitted(widths: Sequence[int], fixed: Sequence[bool], total: int, first: int | None = None) -> list[int]:
    """Column widths that fit into ``total``, with a blank on either side of each. Column ``first`` gives way first,
    then the longest text; a number, a time, an id or an address never does, because a cut one is a wrong one."""
    fitted = list(widths)
    excess = sum(fitted) + 2 * len(fitted) - total
    texts = sorted((at for at, is_fixed in enumerate(fixed) if not is_fixed), key=lambda at: (at != first, -widths[at]))
    for least in _TEXT_WIDTHS_LEAST:
        for at in texts:
            step = min(max(excess, 0), max(fitted[at] - least, 0))
            fitted[at] -= step
            excess -= step
    return fitted


def _cell(value: object) -> Any:
    from rich.text import Text  # plain text: "[bold]" in a message body is no markup

    if value is None:
        return Text("-", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, dict | list):
        return Text(visible(to_json(value).decode()))
    return Text(visible(str(value)))
