"""Replacing a small file so that after any crash it holds the old or the new content, never less.

For what lies outside of a store; files of a store are written through its own file system.
"""

from __future__ import annotations

import contextlib
import os
import stat


def replace_file(path: str | os.PathLike[str], data: bytes, *, like: os.stat_result | None = None) -> None:
    """Write beside the old file, sync, rename, sync the folder, which is made if need be. Raises OSError.

    The file is its owner's alone, unless it shall be ``like`` another one, whose mode and owner it then gets.
    """
    folder, name = os.path.split(os.path.abspath(path))
    make_folders(folder)
    # Of its own name: several processes may replace one file, and the last one wins.
    temporary = os.path.join(folder, f"{name}.{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            if like is not None:
                with contextlib.suppress(PermissionError):  # the owner stays who writes it
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(folder)


def make_folders(folder: str | os.PathLike[str]) -> None:
    """Make a folder and those above it that are missing; they are durable when this returns. Raises OSError."""
    changed = []
    parent = os.path.abspath(folder)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
        changed.append(parent)
    os.makedirs(folder, exist_ok=True)
    for parent in changed:
        _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
