"""Small state files of our own: the CRC-32 of what follows in 8 hexadecimal digits, a line feed, and a JSON object."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import orjson

from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, write_atomically


def read_checked_json(filesystem: FileSystem, path: str, version: int) -> dict[str, Any] | None:
    """The object, None if there is no file; ValueError (or KeyError, TypeError) if it is damaged or of another kind."""
    content = read_small_file(filesystem, path)
    if content is None:
        return None
    digits, _, text = content.partition(b"\n")
    if digits != b"%08x" % crc32(text):
        raise ValueError(f"the checksum of {path} is wrong")
    state: dict[str, Any] = orjson.loads(text)
    if state["version"] != version:
        raise ValueError(f"the version of {path} is {state['version']}")
    return state


def write_checked_json(filesystem: FileSystem, path: str, version: int, state: dict[str, Any]) -> None:
    """Replace the file; after any crash it holds the old or the new state."""
    text = orjson.dumps({"version": version, **state})
    write_atomically(filesystem, path, b"%08x\n" % crc32(text) + text)
