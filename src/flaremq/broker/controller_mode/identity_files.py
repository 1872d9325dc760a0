"""``brokerIdentity`` and ``brokerIdentity-temp``: the id that a controller gave this store, for good.

The temporary file holds the id while it is applied for. A broker that ends in between applies again with the same
check code, and gets the same id.
"""

from __future__ import annotations

import os
from typing import Final

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.replication.membership.membership import Identity
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, write_atomically

_NAME: Final = "brokerIdentity"
_TEMPORARY: Final = "brokerIdentity-temp"
_SIZE_MAX: Final = 4096


class IdentityFiles:
    """The two files of one store."""

    def __init__(self, root: str | os.PathLike[str], filesystem: FileSystem, *, cluster: str, broker_name: str) -> None:
        self._root = os.fspath(root)
        self._filesystem = filesystem
        self._names = cluster, broker_name

    def load(self) -> Identity:
        """What they say; InvalidArgumentError if the store belongs to another broker name."""
        saved = self._read(_NAME, 3)
        if saved is not None:
            return Identity(_number(saved[2], self._path(_NAME)))
        temporary = self._read(_TEMPORARY, 4)
        if temporary is not None:
            return Identity(None, _number(temporary[2], self._path(_TEMPORARY)), temporary[3])
        return Identity()

    def save_temporary(self, broker_id: int, check_code: str) -> None:
        self._write(_TEMPORARY, (*self._names, str(broker_id), check_code))

    def save(self, broker_id: int) -> None:
        self._write(_NAME, (*self._names, str(broker_id)))
        temporary = self._path(_TEMPORARY)
        if self._filesystem.exists(temporary):
            self._filesystem.remove(temporary)

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name)

    def _write(self, name: str, parts: tuple[str, ...]) -> None:
        write_atomically(self._filesystem, self._path(name), "#".join(parts).encode())

    def _read(self, name: str, count: int) -> list[str] | None:
        path = self._path(name)
        data = read_small_file(self._filesystem, path, limit=_SIZE_MAX)
        if not data:
            return None
        try:
            parts = data.decode().strip().split("#", count - 1)
        except UnicodeDecodeError as error:
            raise CorruptionError(f"{path} is no text") from error
        if len(parts) != count:
            raise CorruptionError(f"{path} has {len(parts)} parts between '#', not {count}")
        if tuple(parts[:2]) != self._names:
            raise InvalidArgumentError(
                f"this store belongs to broker {parts[1]} of cluster {parts[0]} ({path}), "
                f"not to {self._names[1]} of {self._names[0]}"
            )
        return parts


def _number(text: str, path: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 1:
        raise CorruptionError(f"{path} has no broker id: {text[:64]!r}")
    return number
