"""Secrets that are named instead of given: ``env:NAME`` or ``file:PATH``.

Then whatever shows, stores or pickles an option, and the list of processes, has nothing to show. The secret is looked
up by the process that needs it.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from flaremq.errors import InvalidArgumentError

FROM_ENVIRONMENT: Final = "env:"
FROM_FILE: Final = "file:"
_SECRET_FILE_MAX: Final = 4096


def names_a_secret(text: str) -> bool:
    """Whether a text says where a secret is, and is none itself."""
    return text.startswith((FROM_ENVIRONMENT, FROM_FILE))


def secret_value(text: str, what: str) -> str:
    """The secret that a text is or names. The errors never show what was found."""
    if text.startswith(FROM_ENVIRONMENT):
        name = text.removeprefix(FROM_ENVIRONMENT)
        if not os.environ.get(name):
            raise InvalidArgumentError(f"{what} is to be in the environment variable {name!r}, which is not set here")
        return os.environ[name]
    return _content(text.removeprefix(FROM_FILE), what) if text.startswith(FROM_FILE) else text


def check_private(mode: int, path: str, what: str) -> None:
    """Refuse a file with a secret that others than its owner may read; ``mode`` is that of the open file."""
    if mode & 0o077:
        raise InvalidArgumentError(
            f"{what} is in the file {path!r}, which has mode {stat.S_IMODE(mode):04o}: others could read it (chmod 600)"
        )


def _content(path: str, what: str) -> str:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_SECRET_FILE_MAX + 1)
        value = data.decode().strip()
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InvalidArgumentError(f"{what} is to be in the file {path!r}, which cannot be read: {reason}") from None
    check_private(mode, path, what)
    if not value or len(data) > _SECRET_FILE_MAX:
        raise InvalidArgumentError(
            f"{what} is to be in the file {path!r}, which is empty or has more than {_SECRET_FILE_MAX} bytes"
        )
    return value
