"""Notes of merges: which data files one takes out of a table, and when.

Snapshots that had them are forgotten by count while commits follow each other, and the age of a file tells when it was
written, not until when it was part of the table. So a note tells ``expire`` for how long readers may still need it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from flaremq.errors import NotFoundError
from flaremq.pipeline.archive.root import METADATA, ArchiveRoot

_FOLDER: Final = f"{METADATA}/replaced"


def note_replaced(root: ArchiveRoot, run: str, paths: Iterable[str]) -> None:
    """Before the commit; if it fails the note says nothing wrong, only too much."""
    root.write_bytes(
        f"{_FOLDER}/{run}.json", orjson.dumps({"replacedMs": int(time.time() * 1000), "paths": list(paths)})
    )


def replaced_since(root: ArchiveRoot, since_ms: int) -> set[str]:
    return {path for _, at_ms, paths in _notes(root) if at_ms >= since_ms for path in paths}


def forget_replaced(root: ArchiveRoot, older_than_ms: int) -> None:
    for note, at_ms, _ in _notes(root):
        if at_ms < older_than_ms:
            root.delete(note)


def _notes(root: ArchiveRoot) -> Iterator[tuple[str, int, list[str]]]:
    for note in root.list(_FOLDER):
        with contextlib.suppress(NotFoundError):
            value = orjson.loads(root.read_bytes(note))
            yield note, value["replacedMs"], value["paths"]
