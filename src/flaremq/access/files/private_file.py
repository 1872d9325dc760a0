"""Private files: files with secrets are their owner's alone, and the owner is who runs the server, or root."""

from __future__ import annotations

import os
import stat

from flaremq.errors import InvalidArgumentError


def check_private(path: str, status: os.stat_result) -> None:
    """Refuse an open file that others may read or change, with what to do about it."""
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgumentError(f"{path} is not a file")
    if status.st_mode & 0o077:
        raise InvalidArgumentError(
            f"{path} holds secrets, and others than its owner may use it (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"chmod 600 {path}"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise InvalidArgumentError(
            f"{path} holds secrets and belongs to user {status.st_uid}, who is not the one that runs this server: "
            f"chown {os.geteuid()} {path}"
        )
