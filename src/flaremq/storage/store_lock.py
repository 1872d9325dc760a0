"""The lock of a reader: shared, on the broker's own lock file, and never making one.

A running broker (ours or Java's) holds an exclusive POSIX lock on byte 0 of ``lock``. A shared lock on the
same byte conflicts with it both ways: a store in use is refused, and no broker starts on a store that is
being read. Several readers do not disturb each other.

POSIX locks belong to the process, and closing *any* descriptor of the file drops them all. So all readers
of one store in this process share one descriptor, and while it is open the store counts as held by this
process: opening it for writing is refused here as it is elsewhere, instead of losing its lock when the
reader closes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from dataclasses import dataclass

from flaremq.errors import StoreIOError, UnavailableError
from flaremq.storage import filesystem as local

_Identity = tuple[int, int]  # device and inode


@dataclass(slots=True)
class _Held:
    descriptor: int
    readers: int = 1


_held: dict[_Identity, _Held] = {}
_held_lock = threading.Lock()  # guards the table above


class SharedLock:
    """Held until ``release``."""

    __slots__ = ("_identity",)

    def __init__(self, identity: _Identity) -> None:
        self._identity: _Identity | None = identity

    @classmethod
    def take(cls, path: str) -> SharedLock | None:
        """Lock, or raise UnavailableError; None if there is no lock file, so nobody to conflict with."""
        with _held_lock:
            try:
                stat = os.stat(path, follow_symlinks=False)
            except OSError:
                return None
            identity = (stat.st_dev, stat.st_ino)
            if identity in _held:
                _held[identity].readers += 1
                return cls(identity)
            if identity in local._held_locks:
                # Opening and closing the file here would drop the lock this very process has.
                raise UnavailableError(f"{path}: this process has the store open; close it first")
            _held[identity] = _Held(_lock(path))
            local._held_locks.add(identity)
            return cls(identity)

    def release(self) -> None:
        with _held_lock:
            identity, self._identity = self._identity, None
            if identity is None:
                return
            held = _held[identity]
            held.readers -= 1
            if held.readers == 0:
                del _held[identity]
                local._held_locks.discard(identity)
                os.close(held.descriptor)


def _lock(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise StoreIOError("open", path, error) from error
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise UnavailableError(
                f"{path}: a running process holds this store; stop it first, or work on a copy"
            ) from error
        raise StoreIOError("lock", path, error) from error
    return descriptor
