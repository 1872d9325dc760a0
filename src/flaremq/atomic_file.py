"""Replacing a small file so that after any crash it holds the old or the new content, never less.

For what lies outside of a store; files of a store are written through its own file system.
"""

from __future__ import annotations

import os
import tempfile


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write beside the old file, sync, rename, sync the folder, which is made if need be. Raises OSError."""
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    # Of its own name: several processes may replace one file, and the last one wins.
    descriptor, temporary = tempfile.mkstemp(prefix=f"{name}.", suffix=".tmp", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
