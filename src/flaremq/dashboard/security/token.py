"""The token: who has it may change things. It stands in a file that only its owner can read."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from flaremq.errors import InvalidArgumentError
from flaremq.secret_place import FROM_FILE, secret_value

_LENGTH_MIN: Final = 16  # characters: a word can be guessed
_WHAT: Final = "the dashboard's token"


class TokenFile:
    """Read when it is needed, so that a new token counts without a restart."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read()

    def matches(self, given: str) -> bool:
        """In a time that does not tell how much of it is right."""
        wanted = hashlib.sha256(self._read().encode()).digest()
        return hmac.compare_digest(wanted, hashlib.sha256(given.encode(errors="replace")).digest())

    def _read(self) -> str:
        token = secret_value(FROM_FILE + self._path, _WHAT)
        if len(token) < _LENGTH_MIN:
            raise InvalidArgumentError(
                f"{_WHAT} in the file {self._path!r} has {len(token)} characters; {_LENGTH_MIN} are the least "
                "(openssl rand -hex 24)"
            )
        return token
