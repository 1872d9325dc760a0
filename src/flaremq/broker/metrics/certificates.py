"""Certificates: until when the one that a server shows is good. The file is read again when it has changed."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime

from flaremq.errors import FlareMQError

_log = logging.getLogger(__name__)
_FILE_MAX = 1 << 20


class Certificate:
    """One file. ``expires_ms`` blocks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._expires_ms: int | None = None

    def expires_ms(self) -> int | None:
        """When it expires, in milliseconds since 1970; None if that cannot be read."""
        try:
            status = os.stat(self._path)
            seen = (status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                with open(self._path, "rb") as file:
                    self._expires_ms = _expiry(file.read(_FILE_MAX))
                self._seen = seen
        except (OSError, ValueError, FlareMQError) as error:
            if self._expires_ms is not None or self._seen is None:
                _log.warning("when %s expires cannot be read: %s", self._path, error)
            self._seen, self._expires_ms = (0, 0), None
        return self._expires_ms


def _expiry(data: bytes) -> int:
    """Of the first certificate, the server's own."""
    from cryptography import x509  # what only guarded ports need

    end: datetime = x509.load_pem_x509_certificate(data).not_valid_after_utc
    return int(end.astimezone(UTC).timestamp() * 1000)
