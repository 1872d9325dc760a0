"""Replay: what is remembered of signatures, so that a recorded request is of no use to who recorded it.

Requests of our clients carry their code, a time and a number used once (``protocol/signing.py``): another code, a time
that is off or a number that was seen is refused. Requests of other clients carry nothing of the kind, and honest ones
repeat: a heartbeat or the question for a route has the same signature each time, and a tool's signature may fit several
codes. So of those only what stores or changes something is held to a rule: a signature that came before is refused from
another address, and from another connection while the first one is open; who lost its connection may try again. For a
change the code under which the signature was seen does not matter, only where it came from. What this leaves open needs
TLS or ``accessSignedTimeRequired``.

Memory is bounded: two generations of which the older one is forgotten when the newer one is full or old. A flood of
requests thus forgets early, and so does a server that starts anew; but for our clients' changes, for which ``once``
says no to what it might have forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from flaremq.access.authority import Row
from flaremq.access.once import Once
from flaremq.protocol.command import ExtValue
from flaremq.protocol.signing import ACCESS_KEY, PROOF, read_proof, shape

WINDOW_MS: Final = 300_000
_GENERATION_MAX: Final = 100_000  # about 20 MB
_EMPTY_FIELDS: Final = 2  # account and signature: where nothing else is signed all requests of the account look alike
_SEEN: Final = "the same signed request came before, from elsewhere"
_AGAIN: Final = "the same signed request came before"
_K = TypeVar("_K")
_V = TypeVar("_V")


class Remembered(Generic[_K, _V]):
    """Keys of the last minutes, the oldest of too many left out."""

    __slots__ = ("_new", "_old", "_since_ms", "_size_max", "_span_ms")

    def __init__(self, span_ms: int = WINDOW_MS, size_max: int = _GENERATION_MAX) -> None:
        self._new: dict[_K, _V] = {}
        self._old: dict[_K, _V] = {}
        self._since_ms = 0
        self._span_ms = span_ms
        self._size_max = size_max

    def get(self, key: _K) -> _V | None:
        found = self._new.get(key)
        return self._old.get(key) if found is None else found

    def put(self, key: _K, value: _V, now_ms: int) -> None:
        if len(self._new) >= self._size_max or now_ms - self._since_ms > self._span_ms:
            self._old, self._new, self._since_ms = self._new, {}, now_ms
        self._new[key] = value

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


class Origin:
    """A connection as far as its requests are remembered by it."""

    __slots__ = ("address", "is_open")

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_open = True


class ReplayGuard:
    """Judges whether a request that is signed well is one that was seen before. Event loop only."""

    def __init__(self, now_ms: Callable[[], int], *, dated_only: bool = False) -> None:
        self._now_ms = now_ms
        self._dated_only = dated_only
        # A time may be off by the window in both directions, so a number counts for twice as long.
        self._nonces: Remembered[str, bool] = Remembered(2 * WINDOW_MS, _GENERATION_MAX)
        self._sends: Remembered[bytes, Origin] = Remembered(WINDOW_MS, _GENERATION_MAX)
        # Of administration, reading included.
        self._tools: Remembered[str, tuple[int, Origin]] = Remembered(WINDOW_MS, _GENERATION_MAX)
        self._changes: dict[str, Once] = {}  # by account, of which there are as many as somebody made
        self._started_ms = now_ms()

    def refusal(
        self,
        code: int,
        ext: Mapping[str, ExtValue],
        signature: str,
        origin: Origin,
        *,
        row: Row | None,
        body_length: int,
    ) -> str | None:
        """Why the request is not believed to be new, or None; it is remembered then."""
        if (text := ext.get(PROOF)) is not None:
            return self._proven(code, str(text), ext, row, body_length)
        if self._dated_only:
            return "requests must carry a signed time and code"
        if row is None or not (row.stores or row.is_tools):
            return None
        if row.stores:
            return None if self.admits_sends([signature.encode()], origin) else _SEEN
        seen = self._tools.get(signature)
        if seen is not None and row.is_change and (body_length or len(ext) > _EMPTY_FIELDS):
            other_code, other = seen
            if other.address != origin.address or (other_code == code and other.is_open and other is not origin):
                return _SEEN
        if seen is None or not seen[1].is_open:
            self._tools.put(signature, (code, origin), self._now_ms())
        return None

    def admits_sends(self, signatures: Sequence[bytes], origin: Origin) -> bool:
        """``refusal`` for sends without a date, all of one connection: False if it would refuse any."""
        if self._dated_only:
            return False
        memory, now_ms = self._sends, self._now_ms()
        for signature in signatures:
            seen = memory.get(signature)
            if seen is None:
                memory.put(signature, origin, now_ms)
            elif seen is not origin:
                if seen.is_open or seen.address != origin.address:
                    return False
                memory.put(signature, origin, now_ms)
        return True

    def _proven(
        self, code: int, text: str, ext: Mapping[str, ExtValue], row: Row | None, body_length: int
    ) -> str | None:
        proof = read_proof(text)
        if proof is None or proof.shape != shape(ext, body_length):
            return "the request was signed with other fields"
        if proof.code != code:
            return "the request was signed for another code"
        now_ms = self._now_ms()
        if abs(now_ms - proof.time_ms) > WINDOW_MS:
            return f"the signed time is off by {abs(now_ms - proof.time_ms) // 1000} s"
        account = str(ext.get(ACCESS_KEY))
        if row is not None and row.is_change:
            if proof.time_ms <= self._started_ms:
                return "the change was signed before this server started"
            changes = self._changes.get(account)
            if changes is None:
                changes = self._changes[account] = Once(self._started_ms)
            return None if changes.admits(proof.nonce, proof.time_ms, now_ms) else _AGAIN
        number = f"{proof.nonce}:{account}"
        if self._nonces.get(number):
            return _AGAIN
        self._nonces.put(number, True, now_ms)
        return None

    @property
    def size(self) -> int:
        """Signatures that are remembered at present."""
        return len(self._nonces) + len(self._sends) + len(self._tools) + sum(map(len, self._changes.values()))
