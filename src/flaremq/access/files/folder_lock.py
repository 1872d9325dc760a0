"""Folder lock: several servers of one machine may share a folder of accounts, and change what is in it by turns.

Without it two changes at the same moment would start from the same content, and the later one would take the earlier
one back although it was acknowledged. The system gives the lock back when a process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flaremq.atomic_file import make_folders
from flaremq.errors import StoreIOError, UnavailableError

_WAIT_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.005


@contextmanager
def folder_lock(folder: str, *, wait_seconds: float = _WAIT_SECONDS) -> Iterator[None]:
    """Be the only one who changes files of a folder, which is made if need be. Blocks; UnavailableError after that
    time."""
    try:
        make_folders(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreIOError("open", folder, error) from error
    try:
        _take(descriptor, folder, time.monotonic() + wait_seconds)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, folder: str, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise UnavailableError(f"another process has been changing files in {folder} for too long") from None
            time.sleep(_PAUSE_SECONDS)
        except OSError as error:
            raise StoreIOError("lock", folder, error) from error
