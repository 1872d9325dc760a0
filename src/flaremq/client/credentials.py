"""Credentials: who signs requests, and where the secret of an account is found.

A secret may be named instead of given, ``env:NAME`` or ``file:PATH``: then whatever shows, stores or pickles options
has nothing to show. It is looked up where a connection is made, in the process that makes it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from flaremq.errors import InvalidArgumentError

FROM_ENVIRONMENT: Final = "env:"
FROM_FILE: Final = "file:"
_SECRET_FILE_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An account: its name, its secret or where that is (``env:NAME``, ``file:PATH``), its token if it is a temporary
    one. The secret signs and is never sent; ``repr`` shows neither."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for what in ("access_key", "secret_key", "security_token"):
            if not isinstance(getattr(self, what), str):  # never shown: it may be a secret all the same
                raise InvalidArgumentError(f"{what} is a text, not a {type(getattr(self, what)).__name__}")
        if not self.access_key or not self.secret_key:
            raise InvalidArgumentError("credentials are an access_key and its secret_key: one of them is empty")

    def resolved(self) -> Credentials:
        """The same with the secrets themselves, looked up in this process."""
        return Credentials(
            access_key=self.access_key,
            secret_key=secret_value(self.secret_key, "secretKey"),
            security_token=secret_value(self.security_token, "securityToken"),
        )


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
