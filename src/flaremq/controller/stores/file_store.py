"""The state of one controller in a folder.

``controller.json`` and ``controller.json.bak`` hold the same: a line with the CRC-32 of the rest in 8 hexadecimal
digits, then the document of ``groups`` with a revision that grows with every attempt to save. A save replaces first the
one, then the other, each atomically and synced, and returns when both are durable. So whatever was answered stands in
both, and when one of them rots the other one is not older than anything a broker was told. (A backup that lags by one
change would be dangerous: it could give out an id or an epoch a second time, or elect from a SyncStateSet that has
shrunk since.) After a crash in between, the newer one counts; nobody was told of it, and it is what comes next.

A lock keeps a second process out of the folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from typing import Final
from zlib import crc32

import orjson

from flaremq.controller.groups import ReplicaGroup, groups_from_value, groups_to_value
from flaremq.controller.stores.store import Follow, Lead, Peer
from flaremq.errors import CorruptionError, UnavailableError
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem, Lock, write_atomically

_log = logging.getLogger(__name__)

FILE: Final = "controller.json"
BACKUP: Final = FILE + ".bak"
LOCK: Final = "lock"


class FileStore:
    """Keeps the groups in a folder. One event loop."""

    def __init__(self, folder: str, filesystem: FileSystem | None = None) -> None:
        self._folder = os.path.abspath(folder)
        self._filesystem = filesystem or LocalFileSystem()
        self._groups: dict[str, ReplicaGroup] = {}
        self._revision = 0
        self._lock: Lock | None = None
        self._me: Peer | None = None

    async def start(self, me: Peer, lead: Lead, follow: Follow) -> None:
        """Take the folder and lead; CorruptionError if both files are damaged."""
        groups = await asyncio.to_thread(self.open)
        self._me = me
        lead(groups)

    def open(self) -> Iterable[ReplicaGroup]:
        """Lock the folder and read the state; blocks."""
        filesystem = self._filesystem
        filesystem.make_directories(self._folder)
        self._lock = filesystem.lock(self._path(LOCK))
        try:
            self._read()
        except BaseException:
            self._lock.release()
            raise
        return self._groups.values()

    def _read(self) -> None:
        found: dict[str, tuple[int, dict[str, ReplicaGroup]]] = {}
        faults: list[CorruptionError] = []
        for name in (FILE, BACKUP):
            content = read_small_file(self._filesystem, self._path(name))
            if content is None:
                continue
            try:
                found[name] = _parse(content, self._path(name))
            except CorruptionError as error:
                _log.error("%s", error)
                faults.append(error)
        if not found:
            if faults:
                raise faults[0]
            return
        newest = max(found, key=lambda name: found[name][0])
        self._revision, self._groups = found[newest]
        if len(found) < 2 or len({revision for revision, _ in found.values()}) > 1:
            if newest != FILE:
                _log.error("the controller's state was read from %s", self._path(newest))
            self._write(self._groups)  # both are whole again before anybody is answered

    def save_now(self, group: ReplicaGroup) -> None:
        """Make a group durable; blocks. StoreIOError if the system refuses."""
        groups = {**self._groups, group.broker_name: group}
        self._write(groups)
        self._groups = groups

    def _write(self, groups: dict[str, ReplicaGroup]) -> None:
        self._revision += 1
        text = orjson.dumps({"revision": self._revision, **groups_to_value(groups.values())}, option=_INDENTED)
        content = b"%08x\n" % crc32(text) + text
        for name in (FILE, BACKUP):
            write_atomically(self._filesystem, self._path(name), content)

    async def save(self, group: ReplicaGroup) -> None:
        """Make a group durable. If that fails the old state goes on here; the next save replaces what is on disk."""
        if self._me is None:
            raise UnavailableError("the controller's state is closed")
        await asyncio.to_thread(self.save_now, group)

    @property
    def is_leading(self) -> bool:
        return self._me is not None

    @property
    def leader(self) -> Peer | None:
        return self._me

    @property
    def peers(self) -> tuple[Peer, ...]:
        return () if self._me is None else (self._me,)

    async def stop(self) -> None:
        """Let go of the folder."""
        self._me = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


_INDENTED: Final = orjson.OPT_INDENT_2


def _parse(content: bytes, path: str) -> tuple[int, dict[str, ReplicaGroup]]:
    """Revision and groups of a file."""
    digits, _, text = content.partition(b"\n")
    if digits != b"%08x" % crc32(text):
        raise CorruptionError("the checksum of the controller's state is wrong", path=path)
    try:
        value = orjson.loads(text)
        revision = value["revision"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"the controller's state cannot be read: {error!r}", path=path) from error
    if type(revision) is not int or revision < 0:
        raise CorruptionError("the controller's state has no revision", path=path, found=revision)
    return revision, groups_from_value(value)
