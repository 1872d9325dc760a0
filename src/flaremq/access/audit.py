"""Audit: one line of JSON for each administrative change and each refusal, in a file that is rotated.

Lines are collected on the event loop and written by a thread, so a slow disk holds up nobody. Refusals of the same kind
(account, address, code, rule) give one line a minute, with their number; changes are never left out. Of those who did
not prove who they are the account and the code do not count, or whoever makes them up would fill the log.
"""

from __future__ import annotations

import logging
import os
from collections import deque
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
_WHAT_MAX: Final = 1024

# Account, address, code and rule; when the line of that kind was made, and how many came since.
_Kinds = dict[tuple[str, str, int, str], tuple[int, int]]


class AuditLog:
    """The audit log of one server. ``note`` and ``refused`` on the event loop, ``write`` in any one thread."""

    def __init__(self, path: str, now_ms: Callable[[], int], *, file_bytes_max: int = _FILE_BYTES_MAX) -> None:
        self._path = path
        self._now_ms = now_ms
        self._file_bytes_max = file_bytes_max
        self._waiting: deque[bytes] = deque()
        self._kinds: tuple[_Kinds, _Kinds] = ({}, {})  # of strangers, and of accounts: neither crowds out the other
        self.lost = 0

    def change(self, *, user: str, address: str, code: int, what: str, result: int) -> None:
        """An administrative change, made or failed: ``result`` is the code of the reply."""
        self._add(event="change", user=user, address=address, code=code, what=what, result=result)

    def refused(self, *, user: str, address: str, code: int, what: str, rule: str, is_proven: bool = True) -> None:
        """A request that was not served. ``is_proven``: the account is who it says it is."""
        now_ms = self._now_ms()
        kind = (user[:_TEXT_MAX], address, code, rule) if is_proven else ("", address, 0, rule)
        kinds = self._kinds[is_proven]
        since, further = kinds.get(kind, (0, 0))
        if since and now_ms - since < _QUIET_MS:
            kinds[kind] = since, further + 1
            return
        if len(kinds) >= _KINDS_MAX and kind not in kinds:
            for old in [key for key, value in kinds.items() if now_ms - value[0] >= _QUIET_MS]:
                del kinds[old]
            if len(kinds) >= _KINDS_MAX:
                self.lost += 1
                return
        kinds[kind] = now_ms, 0
        extra = {"further": further} if further else {}
        self._add(event="refused", user=user, address=address, code=code, what=what, rule=rule, **extra)

    def _add(self, **fields: Any) -> None:
        if len(self._waiting) >= _WAITING_MAX and fields["event"] != "change":
            self.lost += 1
            return
        texts = {name: _legible(name, value) if isinstance(value, str) else value for name, value in fields.items()}
        self._waiting.append(orjson.dumps({"time": self._now_ms(), **texts}) + b"\n")

    @property
    def has_lines(self) -> bool:
        return bool(self._waiting)

    def write(self) -> None:
        """Append what has come since the last call; a disk that fails is said, and the lines are kept for later."""
        waiting = self._waiting
        lines = [waiting.popleft() for _ in range(len(waiting))]  # others may come meanwhile
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
            waiting.extendleft(reversed(lines))

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


def _legible(name: str, text: str) -> str:
    """A bounded text without lone surrogates, which JSON cannot carry."""
    return text[: _WHAT_MAX if name == "what" else _TEXT_MAX].encode("utf-8", "replace").decode()
