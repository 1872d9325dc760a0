"""Whether a commit log that options name belongs to the store they are used with.

A ``broker.conf`` usually names the root and the log of one broker. Used with another root (``--data``, a store given
on the command line) its log would still be the first broker's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from flaremq.errors import InvalidArgumentError
from flaremq.storage.files.layout import COMMIT_LOG

LOG_PATHS = ("storePathCommitLog", "readOnlyCommitLogStorePaths")


def check_log_place(
    root: str | os.PathLike[str], *, config_file: str, of_file: Mapping[str, str], assigned: Mapping[str, str]
) -> None:
    """Refuse a log that only the file names and that is neither below ``root`` nor in the file beside this root."""
    root = os.path.abspath(os.fspath(root))
    home = os.path.join(os.path.expanduser("~"), "store")
    if os.path.realpath(of_file.get("storePathRootDir") or home) == os.path.realpath(root):
        return
    for name in LOG_PATHS:
        if name in assigned:
            continue
        for folder in folders_outside(root, of_file.get(name, "")):
            raise InvalidArgumentError(
                f"{name} of {config_file} is {folder}, outside of {root}: the log of another store. To keep the log "
                f"below {root}, add --set {name}={os.path.join(root, COMMIT_LOG)}; if it really belongs to this "
                f"store, add --set {name}={of_file[name]}"
            )


def folders_outside(root: str | os.PathLike[str], folders: str) -> list[str]:
    """Those of these log folders, joined by commas, that do not lie below ``root``."""
    own = os.path.realpath(root)
    named = [part.strip() for part in folders.split(",") if part.strip()]
    return [folder for folder in named if os.path.commonpath((own, _real(own, folder))) != own]


def _real(root: str, folder: str) -> str:
    """A relative name that is not here may be meant below the root."""
    below = os.path.join(root, folder)
    return os.path.realpath(below if not os.path.isdir(folder) and os.path.isdir(below) else folder)
