"""Audit: one line of JSON for each administrative change and each refusal, in a file that is rotated.

Lines are collected on the event loop and written by a thread, so a slow disk holds up nobody. Refusals of the same kind
(account, address, code, rule) give one line a minute, with their number; changes are never left out.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, Final

import orjson

_log = logging.getLogger(__name__)
_FILE_BYTES_MAX: Final = 16 << 20
_FILES_MAX: Final = 8
_WAITING_MAX: Final = 10_000
_KINDS_MAX: Final = 4_096
_QUIET_MS: Final = 60_000
_TEXT_MAX: Final = 255


class AuditLog:
    """The audit log of one server. ``note`` and ``refused`` on the event loop, ``write`` in any one thread."""

    def __init__(self, path: str, now_ms: Callable[[], int], *, file_bytes_max: int = _FILE_BYTES_MAX) -> None:
        self._path = path
        self._now_ms = now_ms
        self._file_bytes_max = file_bytes_max
        self._waiting: list[bytes] = []
        self._refusals: dict[tuple[str, str, int, str], tuple[int, int]] = {}  # when its line was made, further ones
        self.lost = 0

    def change(self, *, user: str, address: str, code: int, what: str, result: int) -> None:
        """An administrative change, made or failed: ``result`` is the code of the reply."""
        self._add(event="change", user=user, address=address, code=code, what=what, result=result)

    def refused(self, *, user: str, address: str, code: int, what: str, rule: str) -> None:
        """A request that was not served."""
        now_ms, kind = self._now_ms(), (user[:_TEXT_MAX], address, code, rule)
        since, further = self._refusals.get(kind, (0, 0))
        if since and now_ms - since < _QUIET_MS:
            self._refusals[kind] = since, further + 1
            return
        if len(self._refusals) >= _KINDS_MAX:
            self._refusals = {key: value for key, value in self._refusals.items() if now_ms - value[0] < _QUIET_MS}
            if len(self._refusals) >= _KINDS_MAX:
                self.lost += 1
                return
        self._refusals[kind] = now_ms, 0
        extra = {"further": further} if further else {}
        self._add(event="refused", user=user, address=address, code=code, what=what, rule=rule, **extra)

    def _add(self, **fields: Any) -> None:
        if len(self._waiting) >= _WAITING_MAX and fields["event"] != "change":
            self.lost += 1
            return
        texts = {name: value[:_TEXT_MAX] if isinstance(value, str) else value for name, value in fields.items()}
        line = {"time": self._now_ms(), **texts}
        self._waiting.append(orjson.dumps({name: _legible(value) for name, value in line.items()}) + b"\n")

    @property
    def has_lines(self) -> bool:
        return bool(self._waiting)

    def write(self) -> None:
        """Append what has come since the last call; a disk that fails is said, and the lines are kept for later."""
        lines, self._waiting = self._waiting, []
        if not lines:
            return
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._rotate()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "ab") as file:
                file.write(b"".join(lines))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            _log.error("the audit log %s cannot be written: %s", self._path, error)
            self._waiting = (lines + self._waiting)[:_WAITING_MAX]

    def _rotate(self) -> None:
        try:
            if os.path.getsize(self._path) < self._file_bytes_max:
                return
        except FileNotFoundError:
            return
        for number in range(_FILES_MAX - 1, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(older):
                os.replace(older, f"{self._path}.{number}")


def _legible(value: Any) -> Any:
    """Text without lone surrogates, which JSON cannot carry."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
