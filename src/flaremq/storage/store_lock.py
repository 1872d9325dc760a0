"""The lock of a reader: shared, on the broker's own lock file, and never making one.

A running broker (ours or Java's) holds an exclusive POSIX lock on byte 0 of ``lock``. A shared lock on the
same byte conflicts with it both ways: a store in use is refused, and no broker starts on a store that is
being read. Several readers do not disturb each other.
"""

from __future__ import annotations

import errno
import fcntl
import os

from flaremq.errors import StoreIOError, UnavailableError
from flaremq.storage import filesystem as local


class SharedLock:
    """Held until ``release``."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: str) -> SharedLock | None:
        """Lock, or raise UnavailableError; None if there is no lock file and so no process to conflict
        with."""
        if _held_by_this_process(path):
            # Opening and closing the file here would drop the lock this very process has (POSIX).
            raise UnavailableError(f"{path}: this process has the store open; close it first")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
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
        return cls(descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _held_by_this_process(path: str) -> bool:
    try:
        stat = os.stat(path)
    except OSError:
        return False
    return (stat.st_dev, stat.st_ino) in local._held_locks
