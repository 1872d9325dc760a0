"""The key that seals receipt handles, as servers find it: handles are good for hours, servers are started anew."""

from __future__ import annotations

import os
import secrets
from typing import Final

from flaremq.atomic_file import replace_file
from flaremq.errors import InvalidArgumentError
from flaremq.secret_place import check_private

_BYTES_MIN: Final = 16
_BYTES_MAX: Final = 4096
_NEW_BYTES: Final = 32
_WHAT: Final = "the key of receipt handles"


def read_key(path: str) -> bytes:
    """The key in a file; InvalidArgumentError if there is none that is good for it."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgumentError(f"{_WHAT} is to be in the file {path!r}, which cannot be read: {error}") from None
    check_private(mode, path, _WHAT)
    if not _BYTES_MIN <= len(key) <= _BYTES_MAX:
        raise InvalidArgumentError(f"{_WHAT} in the file {path!r} has {len(key)} bytes, not {_BYTES_MIN} or more")
    return key


def own_key(path: str) -> bytes:
    """The key in a server's own file, which is made if there is none."""
    if not os.path.exists(path):
        replace_file(path, secrets.token_bytes(_NEW_BYTES))
    return read_key(path)
