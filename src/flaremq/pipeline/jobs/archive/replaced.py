"""Notes of a compaction: which files its commit takes out of the archive. They are set aside behind the commit; if the
run is killed in between, the next one of either kind finds the note and does it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from flaremq.errors import NotFoundError
from flaremq.pipeline.archive.entries import ArchiveFile
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.archive.task import PENDING

_NOTE: Final = ".replaced.json"


def note_replaced(root: ArchiveRoot, run: str, files: Sequence[ArchiveFile]) -> str:
    """Before the commit; the path of the note."""
    path = f"{PENDING}/{run}{_NOTE}"
    root.write_bytes(path, orjson.dumps([file.path for file in files if file.path is not None]))
    return path


def set_aside_replaced(root: ArchiveRoot, manifest: Manifest, pending: Iterable[str]) -> None:
    """What notes among these files name and the manifest no longer does. A note without its commit does nothing."""
    notes = [path for path in pending if path.endswith(_NOTE)]
    known = {file.path for file in manifest.files} if notes else set()
    for note in notes:
        replaced: list[str] = []
        with contextlib.suppress(NotFoundError, ValueError):  # cut short itself: then nothing was committed after it
            replaced = orjson.loads(root.read_bytes(note))
        for path in replaced:
            if path not in known:
                root.set_aside(path)
