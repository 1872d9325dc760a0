"""Leases: those who read the log from outside ask retention to leave the files they are about to read.

A reader without the store's lock cannot keep a file from being deleted, so it leaves a note, a JSON file in the folder
``flaremq.leases``, with the lowest physical offset it needs and until when. Retention deletes no file that holds bytes
at or behind a lease (unless the disk is so full that it deletes without regard to age) and removes leases that ran out.
A note is a request, never a promise: RocketMQ ignores it, and a directory that cannot be written to gets none.

A process has one note for each store. It remembers an offset for each minute in which one was asked for, so that a
stream that goes forward lets go of what it has left behind, and prolongs older requests of others that its own reading
shows to be still under way: the process that planned a scan is often gone when the last of its tasks runs.

    {"physicalOffset": 4096, "expiresMs": 1767225600000, "holds": [[createdMs, physicalOffset, expiresMs], …]}
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from typing import NamedTuple

from flaremq.errors import FlareMQError
from flaremq.storage.files import layout
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem

LIFETIME_MS = 15 * 60_000
_STEP_MS = 60_000  # a lease is written at most once a minute unless it asks for more
_FRESH_MS = _STEP_MS + 30_000
_PROLONGED_MS_MAX = 6 * 3_600_000  # others renew a request for no longer
_SIZE_MAX = 1 << 20


class Hold(NamedTuple):
    created_ms: int
    physical_offset: int
    expires_ms: int


class Lease:
    """The note of this process in one store. Not thread-safe; losing an update to another process costs a minute."""

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, layout.LEASES)
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"{socket.gethostname()}/{os.getpid()}/{root}")
        self._path = os.path.join(self._folder, f"{name}.json")
        self._written_ms = 0
        self._offset = -1

    def hold(self, physical_offset: int, now_ms: int | None = None) -> None:
        """Ask that the log from this offset on stays for the next quarter of an hour. Cheap to repeat; never fails."""
        now = int(time.time() * 1000) if now_ms is None else now_ms
        if now - self._written_ms < _STEP_MS and physical_offset >= self._offset >= 0:
            return
        holds = [hold for hold in _read(self._path) if hold.expires_ms > now]
        if holds and now - holds[-1].created_ms < _STEP_MS:
            last = holds.pop()
            physical_offset = min(physical_offset, last.physical_offset)
        holds.append(Hold(now, physical_offset, now + LIFETIME_MS))
        self._written_ms, self._offset = now, physical_offset
        with contextlib.suppress(OSError):  # a read-only directory, a full disk: read without a lease
            os.makedirs(self._folder, exist_ok=True)
            _write(self._path, holds)
            self._prolong(physical_offset, now)

    def _prolong(self, physical_offset: int, now: int) -> None:
        """Requests of others at or before our offset may be for the scan we are part of."""
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if path == self._path or not name.endswith(".json"):
                continue
            holds = _read(path)
            longer = [_prolonged(hold, now) if hold.physical_offset <= physical_offset else hold for hold in holds]
            if longer != holds:
                _write(path, longer)


def _prolonged(hold: Hold, now: int) -> Hold:
    if not now < hold.expires_ms < now + LIFETIME_MS - _STEP_MS:
        return hold
    limit = hold.created_ms + _PROLONGED_MS_MAX
    return hold._replace(expires_ms=max(hold.expires_ms, min(now + LIFETIME_MS, limit)))


def _write(path: str, holds: list[Hold]) -> None:
    note = {
        "physicalOffset": min(hold.physical_offset for hold in holds),
        "expiresMs": max(hold.expires_ms for hold in holds),
        "holds": holds,
    }
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(note, file)
    os.replace(temporary, path)


def _read(path: str) -> list[Hold]:
    try:
        with open(path, "rb") as file:
            return _parse(file.read(_SIZE_MAX))
    except OSError:
        return []


def _parse(data: bytes | None) -> list[Hold]:
    """What a note asks for; nothing if it is not one."""
    try:
        note = json.loads(data or b"{}")
        holds = note.get("holds", [[0, note["physicalOffset"], note["expiresMs"]]])
        return [Hold(*(int(value) for value in hold)) for hold in holds]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


class Leases:
    """All leases of a store, as its retention sees them."""

    def __init__(self, filesystem: FileSystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder

    def lowest(self, now_ms: int) -> int | None:
        """The lowest physical offset that a reader holds; None without readers. Removes expired leases."""
        lowest: int | None = None
        for name in self._names():
            path = os.path.join(self._folder, name)
            try:
                data = read_small_file(self._filesystem, path, limit=_SIZE_MAX) if name.endswith(".json") else None
                holds = _parse(data)
                # An end further away than a lease can have is a wrong clock, and must not keep files for ever.
                live = [hold.physical_offset for hold in holds if now_ms < hold.expires_ms <= now_ms + 2 * LIFETIME_MS]
                if live:
                    lowest = min(live) if lowest is None else min(lowest, *live)
                elif holds or now_ms - self._filesystem.modified_ms(path) > LIFETIME_MS:
                    self._filesystem.remove(path)  # ran out, or was never finished
            except FlareMQError:
                continue  # removed meanwhile, or not readable: no request
        return lowest

    def are_fresh(self, now_ms: int) -> bool:
        """Whether a process reads the files just now: each reader writes its lease every minute."""
        try:
            return abs(now_ms - self._filesystem.modified_ms(self._folder)) < _FRESH_MS
        except FlareMQError:
            return False  # there never was one

    def _names(self) -> list[str]:
        try:
            return self._filesystem.list_directory(self._folder)
        except FlareMQError:
            return []
