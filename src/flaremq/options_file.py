"""A file of options that a running server keeps up to date: what an administrator changes over the wire lasts.

RocketMQ writes its whole configuration anew at each change, without comments, secrets and defaults included. Here only
the lines of what was changed are rewritten, everything else stays as it was typed; a name that has no line yet gets one
at the end. The file is replaced as a whole, so a crash leaves the old or the new one; owner and mode are the old one's.

A server that was given a file keeps that one. Others have one of their own beside their state, which they read at their
next start.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from flaremq.atomic_file import replace_file
from flaremq.errors import InvalidArgumentError
from flaremq.options import load_properties, parse_properties

_log = logging.getLogger(__name__)
_HEAD: Final = (
    "# Options that were changed while the server ran. Read at its start; the command line counts more.\n"
    "# A line that is removed here goes back to its default at the next start.\n"
)
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_BEFORE_VALUE: Final = re.compile(r"[ \t\f]*(?:\\.|[^=: \t\f\\\r\n])+[ \t\f]*[=: \t\f][ \t\f]*")


class OptionsFile:
    """One file and whoever changes it: one task of an event loop at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._changing = asyncio.Lock()  # one change after the other: each reads what the last one wrote

    def read(self) -> dict[str, str]:
        """What the file says; nothing where there is none."""
        return load_properties(self.path) if os.path.exists(self.path) else {}

    async def keep(self, values: Mapping[str, str]) -> str:
        """Let these values last; a sentence if they will not, because the file cannot be written."""
        try:
            async with self._changing:
                await asyncio.to_thread(self._write, values)
        except (OSError, InvalidArgumentError) as error:
            told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            sentence = f"the change lasts until the server stops: {self.path} cannot be written: {told}"
            _log.warning("%s", sentence)
            return sentence
        return ""

    def _write(self, values: Mapping[str, str]) -> None:
        # Where the name is a link, the file behind it is meant.
        path = os.path.realpath(self.path)
        try:
            with open(path, "rb") as file:
                data, status = file.read(), os.fstat(file.fileno())
        except FileNotFoundError:
            data, status = _HEAD.encode(), None
        try:
            encoding = "utf-8"
            text = data.decode(encoding)
        except UnicodeDecodeError:
            encoding = "latin-1"
            text = data.decode(encoding)
        replace_file(path, rewritten(text, values).encode(encoding), like=status)


def rewritten(text: str, values: Mapping[str, str]) -> str:
    """The text of a properties file in which these names have these values. Of a name with several lines each is
    changed; comments, order, blanks and line ends stay."""
    pieces: list[str] = []
    left = dict(values)
    for entry in _entries(text):
        name = next(iter(parse_properties(entry.removeprefix("\ufeff"))), None)
        if name is None or name not in values:
            pieces.append(entry)
            continue
        left.pop(name, None)
        before = _BEFORE_VALUE.match(entry)
        end = entry[len(entry.rstrip("\r\n")) :]
        pieces.append(f"{before[0] if before else f'{name}='}{_escaped(values[name])}{end}")
    if left and pieces and not pieces[-1].endswith(("\r", "\n")):
        pieces.append("\n")
    newline = "\r\n" if "\r\n" in text else "\n"
    pieces += [f"{name}={_escaped(value)}{newline}" for name, value in left.items()]
    return "".join(pieces)


def _entries(text: str) -> Iterator[str]:
    """The lines, each with those it is continued by; a comment is never continued."""
    pending = ""
    for line in _LINE.findall(text):
        if not line:
            continue
        bare = line.rstrip("\r\n")
        pending, is_comment = pending + line, not pending and bare.lstrip(" \t\f")[:1] in ("#", "!")
        if is_comment or (len(bare) - len(bare.rstrip("\\"))) % 2 == 0:
            yield pending
            pending = ""
    if pending:
        yield pending


def _escaped(value: str) -> str:
    """The value as any reader of properties files takes it, Java's too."""
    shown = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    units = shown.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    text = "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)
    return f"\\{text}" if text[:1] in (" ", "=", ":") else text
