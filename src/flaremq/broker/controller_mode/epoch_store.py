"""EpochStore: the epochs of a store's log in memory and in ``epochFileCheckpoint``.

An epoch is on disk before a byte of it is in the log or promised to a master. The other way round a crash would leave
bytes that look like those of the epoch before, and a later comparison would take a wrong end for common history.
"""

from __future__ import annotations

import logging
import os
from typing import Final

from flaremq.errors import CorruptionError
from flaremq.replication.epochs import EpochTable, format_epochs, parse_epochs
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, write_atomically

_log = logging.getLogger(__name__)
_NAME: Final = "epochFileCheckpoint"
_BACKUP: Final = "epochFileCheckpoint.bak"
_SIZE_MAX: Final = 1 << 20


class EpochStore:
    """One owner. Saving blocks for a sync; it happens once an election."""

    def __init__(self, root: str | os.PathLike[str], filesystem: FileSystem) -> None:
        self._root = os.fspath(root)
        self._filesystem = filesystem
        self._saved = b""
        self.table = self._load()

    def add(self, epoch: int, start_offset: int) -> None:
        """What lies behind ``start_offset`` is of this epoch; on disk when it returns. One that is known is kept."""
        if self.table.entries[-1:] == ((epoch, start_offset),):
            return
        self._save(self.table.append(epoch, start_offset))

    def cut(self, offset: int) -> None:
        """The log ends at ``offset`` now: epochs that began at or behind it have nothing of theirs left."""
        kept = self.table.without_from(offset)
        if kept != self.table:
            self._save(kept)

    def _load(self) -> EpochTable:
        """The file, or its predecessor if it is damaged; CorruptionError if both are: a guess might cut good data."""
        damage: CorruptionError | None = None
        for name in (_NAME, _BACKUP):
            data = read_small_file(self._filesystem, os.path.join(self._root, name), limit=_SIZE_MAX)
            if data is None:
                continue
            try:
                table = EpochTable(parse_epochs(data))
            except CorruptionError as error:
                _log.error("%s of %s cannot be read: %s", name, self._root, error)
                damage = damage or error
                continue
            self._saved = data
            return table
        if damage is not None:
            raise damage
        return EpochTable()

    def _save(self, table: EpochTable) -> None:
        data = format_epochs(table.entries)
        if self._saved:
            write_atomically(self._filesystem, os.path.join(self._root, _BACKUP), self._saved)
        write_atomically(self._filesystem, os.path.join(self._root, _NAME), data)
        self.table, self._saved = table, data
        _log.info("epochs of the log: %s", ", ".join(f"{epoch} from {start}" for epoch, start in table) or "none")
