"""Putting rebuilt views in the place of the old ones, so that a crash at any step leaves a store that opens.

Everything is built in ``flaremq.rebuild/new`` below the store's root. When all of it is on disk, ``flaremq.rebuild/
ready`` is written; then each view's old folder moves to ``flaremq.rebuild/old`` and the new one to the root; then the
offsets file learns of the new index; then the folder goes. ``resolve_earlier`` decides by what it finds:

* no ``ready``: the build was not finished. It is thrown away; the old views were not touched.
* ``ready``, and nobody has opened the store since: the swap is finished from where it stopped. Every move that was
  made is seen from what stands where, so this too may be cut short.
* ``ready``, but the store was opened since: whoever opened it has made what was missing from the log and may have
  written more, so the rebuilt views are outdated and thrown away.

A broker that opens the store between two moves finds a view missing and builds it from the log, as it always does.
The caller holds the store's lock from before ``resolve_earlier`` until after ``swap``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable

from flaremq.storage.files import layout
from flaremq.storage.files.filesystem import LocalFileSystem, write_atomically
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.rebuild.notes import ViewNotes, apply_notes

FOLDER = "flaremq.rebuild"
VIEWS = (layout.CONSUME_QUEUE, layout.BATCH_CONSUME_QUEUE, layout.INDEX)
_READY = "ready"


class ViewSwap:
    """One swap in one store."""

    def __init__(self, store_layout: StoreLayout, *, on_step: Callable[[str], None] | None = None) -> None:
        """``on_step`` is told each step before it is done (tests stop there)."""
        self._layout = store_layout
        self._filesystem = LocalFileSystem()
        self._folder = store_layout.path(FOLDER)
        self._on_step = on_step or (lambda _: None)

    @property
    def new(self) -> str:
        return os.path.join(self._folder, "new")

    @property
    def spills(self) -> str:
        return os.path.join(self._folder, "spill")

    def resolve_earlier(self) -> str | None:
        """Finish or undo what an earlier run left: "finished", "undone", or None if it left nothing."""
        if not os.path.lexists(self._folder):
            return None
        ready = os.path.join(self._folder, _READY)
        if os.path.exists(ready):
            mark = json.loads(self._read(ready))
            if mark["fingerprint"] == self._fingerprint():
                self._move()
                self._step("note", lambda: apply_notes(self._layout, ViewNotes.of_json(mark["notes"])))
                self.remove()
                return "finished"
        self.remove()
        return "undone"

    def begin(self) -> None:
        """Make the folders to build in."""
        for view in VIEWS:
            os.makedirs(os.path.join(self.new, view))
        os.makedirs(self.spills)
        os.makedirs(os.path.join(self._folder, "old"))

    def swap(self, notes: ViewNotes) -> None:
        """Put the new views in place, then tell the store's own files about them."""
        self._step("sync", lambda: self._sync(self.new))
        self._step("ready", lambda: self._write_ready(notes))
        self._move()
        self._step("note", lambda: apply_notes(self._layout, notes))
        self.remove()

    def remove(self) -> None:
        """Throw the folder away, the mark first: without it the rest means nothing."""
        ready = os.path.join(self._folder, _READY)
        if os.path.exists(ready):
            self._step("unready", lambda: self._unlink(ready))
        self._step("remove", lambda: shutil.rmtree(self._folder, ignore_errors=True))
        self._filesystem.sync_directory(self._layout.root)

    def _move(self) -> None:
        for view in VIEWS:
            new, old = os.path.join(self.new, view), os.path.join(self._folder, "old", view)
            place = self._layout.path(view)
            if not os.path.exists(new):
                continue  # moved already
            if os.path.exists(place) and not os.path.exists(old):
                self._step(f"old {view}", lambda place=place, old=old: self._rename(place, old))  # type: ignore[misc]
            if os.listdir(new):
                self._step(f"new {view}", lambda new=new, place=place: self._rename(new, place))  # type: ignore[misc]
        self._sync(os.path.join(self._folder, "old"))

    def _write_ready(self, notes: ViewNotes) -> None:
        mark = json.dumps({"fingerprint": self._fingerprint(), "notes": notes.to_json()}).encode()
        write_atomically(self._filesystem, os.path.join(self._folder, _READY), mark)

    def _fingerprint(self) -> str:
        """Changes when anybody opens the store for writing: our offsets file always does, RocketMQ's log or abort."""
        digest = hashlib.sha256()
        for path in (self._layout.offsets, self._layout.checkpoint, self._layout.abort):
            data = self._read(path) if os.path.exists(path) else None
            digest.update(json.dumps([path, None if data is None else data.hex()]).encode())
        for folder in self._layout.commit_log_paths:
            for name in self._filesystem.list_directory(folder)[-2:]:
                status = os.stat(os.path.join(folder, name))
                digest.update(json.dumps([name, status.st_size, status.st_mtime_ns]).encode())
        return digest.hexdigest()

    def _rename(self, source: str, target: str) -> None:
        os.rename(source, target)
        for folder in {os.path.dirname(source), os.path.dirname(target)}:
            self._filesystem.sync_directory(folder)

    def _unlink(self, path: str) -> None:
        os.unlink(path)
        self._filesystem.sync_directory(self._folder)

    def _sync(self, folder: str) -> None:
        for above, _, _ in os.walk(folder):
            self._filesystem.sync_directory(above)
        self._filesystem.sync_directory(self._folder)
        self._filesystem.sync_directory(self._layout.root)

    def _step(self, name: str, action: Callable[[], None]) -> None:
        self._on_step(name)
        action()

    @staticmethod
    def _read(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()
