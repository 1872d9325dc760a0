"""Sessions: who signed in, in memory only. A restart signs everybody out.

A session is known by a random cookie of which only a hash is kept. Each has a CSRF token of its own; pages seen without
a session have one that all of them share, for the form to sign in: a stranger's page cannot read it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flaremq.client.credentials import Credentials
from flaremq.clock import Clock

SESSIONS_MAX: Final = 64
IDLE_SECONDS: Final = 2 * 3600.0
LIFE_SECONDS: Final = 12 * 3600.0
TRIES_MAX: Final = 5  # wrong tries before everybody has to wait
WAIT_SECONDS: Final = 5.0


@dataclass(slots=True, eq=False)
class Session:
    """Somebody who signed in."""

    user: str
    can_change: bool
    credentials: Credentials | None = field(repr=False)  # of the cluster's access control
    csrf: str = field(repr=False)
    began: float
    seen: float


class Sessions:
    """Event loop thread only. ``on_end`` is called with each session that ends."""

    def __init__(self, clock: Clock, on_end: Callable[[Session], None] = lambda session: None) -> None:
        self._clock = clock
        self._on_end = on_end
        self._sessions: dict[bytes, Session] = {}
        self._failures: list[float] = []
        self.public_csrf: Final = secrets.token_urlsafe(24)

    def __len__(self) -> int:
        return len(self._sessions)

    # Signing in

    def wait_seconds(self) -> float:
        """How long nobody may try, after several wrong tries."""
        now = self._clock.monotonic()
        self._failures = [at for at in self._failures if now - at < 60]
        if len(self._failures) < TRIES_MAX:
            return 0.0
        return max(0.0, self._failures[-1] + WAIT_SECONDS - now)

    def note_failure(self) -> None:
        self._failures.append(self._clock.monotonic())
        del self._failures[:-TRIES_MAX]

    def begin(self, user: str, *, can_change: bool, credentials: Credentials | None) -> tuple[str, Session]:
        """A new session and its cookie. The one that was quiet for longest makes room."""
        self._drop_old()
        while len(self._sessions) >= SESSIONS_MAX:
            self._end(min(self._sessions, key=lambda key: self._sessions[key].seen))
        now = self._clock.monotonic()
        cookie = secrets.token_urlsafe(32)
        session = Session(user, can_change, credentials, secrets.token_urlsafe(24), now, now)
        self._sessions[_hashed(cookie)] = session
        return cookie, session

    # Coming back

    def find(self, cookie: str | None) -> Session | None:
        if not cookie:
            return None
        self._drop_old()
        session = self._sessions.get(_hashed(cookie))
        if session is not None:
            session.seen = self._clock.monotonic()
        return session

    def end(self, cookie: str | None) -> None:
        key = _hashed(cookie or "")
        if key in self._sessions:
            self._end(key)

    def all(self) -> list[Session]:
        return list(self._sessions.values())

    def is_live(self, session: Session) -> bool:
        """Whether it has not ended: for what goes on, such as a stream."""
        return any(session is one for one in self._sessions.values())

    def csrf_of(self, session: Session | None) -> str:
        return self.public_csrf if session is None else session.csrf

    def is_csrf(self, session: Session | None, given: str) -> bool:
        return hmac.compare_digest(self.csrf_of(session).encode(), given.encode(errors="replace"))

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        for key, session in list(self._sessions.items()):
            if now - session.seen > IDLE_SECONDS or now - session.began > LIFE_SECONDS:
                self._end(key)

    def _end(self, key: bytes) -> None:
        self._on_end(self._sessions.pop(key))


def _hashed(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="replace")).digest()
