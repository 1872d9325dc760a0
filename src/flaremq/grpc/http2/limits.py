"""What a peer may do on one connection."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes. Those that stand in settings are told to the peer."""

    streams_max: int = 1024
    header_list_max: int = 16_384
    header_block_max: int = 32_768  # as it is sent, over all its frames
    continuations_max: int = 32
    frame_max: int = 131_072
    stream_window: int = 262_144  # so much of a message comes without asking; nearly all need no more
    connection_window: int = 8_388_608


class Pace:
    """How often something may happen: so often at once, and so often a second in the long run."""

    __slots__ = ("_burst", "_left", "_per_second", "_since")

    def __init__(self, burst: int, per_second: int) -> None:
        self._burst = self._left = float(burst)
        self._per_second = per_second
        self._since = 0.0

    def is_exceeded(self, now: float) -> bool:
        """It happened once more; whether that is too often."""
        self._left = min(self._left + (now - self._since) * self._per_second, self._burst) - 1.0
        self._since = now
        return self._left < 0.0


class Waiting:
    """Bytes that peers have no room for, over all connections that share this."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0
