"""One of the files in ``config``: a small JSON document that survives crashes and bad disks.

The form is RocketMQ 5's, character for character: tabs, one entry a line, integer keys without quotes. Any RocketMQ
loads it, and what any RocketMQ wrote is read, whatever its dialect (:mod:`flaremq.java_json`).

* A save writes a temporary file, syncs it, renames it over the old one and syncs the folder: after any crash the file
  holds the old content or the new, never less.
* The content before that stays in ``.bak``. Only what was read and understood gets there, or what we wrote: a damaged
  file never pushes out a good backup.
* Content that could not be read is put aside as ``.damaged`` before it is replaced.
* A load that finds the file missing or damaged takes the backup and says so in :attr:`ConfigFile.complaints`. If the
  backup is damaged too, loading fails: going on with nothing would end in saving nothing over what can be rescued.
* Saving before loading is a mistake of ours and refused: it would replace what is there by an empty table.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import orjson

from flaremq.errors import CorruptionError, ProtocolError
from flaremq.java_json import parse_java_json
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, write_atomically

T = TypeVar("T")

_log = logging.getLogger(__name__)
_SIZE_MAX: Final = 1 << 30  # a table of some million entries; more is no file of ours


class Rendered(str):
    """Text of a value as it stands in a file at depth 2, kept by those who save large tables often."""

    __slots__ = ()


class ConfigFile:
    """A file of ``config``. Any thread may call it."""

    __slots__ = ("_content", "_damaged", "_filesystem", "_loaded", "_lock", "complaints", "path")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.path = path
        self.complaints: list[str] = []
        self._filesystem = filesystem
        self._loaded = False
        self._content: bytes | None = None  # what the file holds, if that is good
        self._damaged = b""  # what the file holds, if that is not
        self._lock = threading.Lock()  # guards the file and its backup

    def load(self, read: Callable[[dict[str, Any]], T]) -> T | None:
        """What ``read`` makes of the document, or None if there is none yet; ProtocolError from it means damage."""
        with self._lock:
            content, document, damage = self._read(self.path, read)
            if document is not None:
                self._content = content
            else:
                self._damaged = content.strip()
                backup = self.path + ".bak"
                _, document, backup_damage = self._read(backup, read)
                if backup_damage:
                    raise CorruptionError(
                        f"{backup_damage}, and {damage or f'{self.path} does not exist'}", path=backup
                    )
                if document is not None:
                    self._complain(f"{damage or f'{self.path} does not exist'}: {backup} was loaded instead")
                elif damage:
                    # The one case in which something is lost: a group without offsets begins like a new one.
                    self._complain(
                        f"{damage}, and there is no {backup}: it starts empty, and everything it held counts as new; "
                        f"the content is kept as {self.path}.damaged at the next save",
                        logging.ERROR,
                    )
            self._loaded = True
            return document

    def save(self, document: Mapping[str, Any]) -> None:
        """Replace the content; StoreIOError, and the old content stays, if the system refuses."""
        content = render(document).encode()
        with self._lock:
            assert self._loaded, f"{self.path} is saved before it was loaded"
            if content == self._content:
                return
            self._filesystem.make_directories(os.path.dirname(self.path))
            if self._content is not None:
                write_atomically(self._filesystem, self.path + ".bak", self._content)
            elif self._damaged:
                write_atomically(self._filesystem, self.path + ".damaged", self._damaged)
                self._damaged = b""
            self._content = None  # unknown until the write has succeeded
            write_atomically(self._filesystem, self.path, content)
            self._content = content

    def _read(self, path: str, read: Callable[[dict[str, Any]], T]) -> tuple[bytes, T | None, str]:
        """Content, value, and what is wrong with it: an absent file has neither value nor fault."""
        content = read_small_file(self._filesystem, path, limit=_SIZE_MAX)
        if content is None:
            return b"", None, ""
        try:
            document = parse_java_json(content)
            if isinstance(document, dict):
                return content, read(document), ""
            error: Exception | str = f"{type(document).__name__} where an object should be"
        except (ValueError, RecursionError, ProtocolError) as caught:
            error = caught
        return content, None, f"{path} cannot be read ({error})" if content.strip() else f"{path} is empty"

    def _complain(self, sentence: str, level: int = logging.WARNING) -> None:
        self.complaints.append(sentence)
        _log.log(level, "%s", sentence)


def render(document: Mapping[str, Any]) -> str:
    """The document as RocketMQ 5 prints it."""
    return "".join(_rendered(document, 0))


def render_entry(value: Any) -> Rendered:
    """A value as it would stand in a table of the document, for :class:`Rendered`."""
    return Rendered("".join(_rendered(value, 2)))


def render_integers(table: Mapping[int, int]) -> Rendered:
    """The same for a map of numbers, eight times as fast: offset tables have a hundred thousand of them and more."""
    if not table:
        return Rendered("{}")
    return Rendered("{\n\t\t\t" + ",\n\t\t\t".join([f"{key}:{value}" for key, value in table.items()]) + "\n\t\t}")


def _rendered(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Rendered):
        yield value
    elif isinstance(value, Mapping):
        if not value:
            yield "{}"
            return
        indent = "\n" + "\t" * (depth + 1)
        comma = "{"
        for key, item in value.items():
            yield f"{comma}{indent}{_text(key)}:"
            yield from _rendered(item, depth + 1)
            comma = ","
        yield "\n" + "\t" * depth + "}"
    elif isinstance(value, (list, tuple)):
        if not value:
            yield "[]"
            return
        indent = "\n" + "\t" * (depth + 1)
        comma = "["
        for item in value:
            yield comma + indent
            yield from _rendered(item, depth + 1)
            comma = ","
        yield "\n" + "\t" * depth + "]"
    else:
        yield _text(value)


def _text(value: Any) -> str:
    # An integer is written bare wherever it stands, so a key too: that is RocketMQ's dialect.
    return orjson.dumps(value).decode()
