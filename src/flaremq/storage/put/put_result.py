"""What a put answers."""

from __future__ import annotations

from array import array
from itertools import accumulate
from sys import byteorder

from flaremq.storage.status import PutMessageStatus

_OK = PutMessageStatus.PUT_OK


class PutResult:
    """What became of a put. Offsets are -1 if nothing was stored; ``detail`` then says why."""

    __slots__ = ("_more", "physical_offset", "queue_offset", "size", "status", "store_timestamp")

    def __init__(
        self,
        status: PutMessageStatus,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
        size: int,
        more: bytes | tuple[bytes, str | None, list[int] | None],
    ) -> None:
        self.status = status
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.store_timestamp = store_timestamp
        self.size = size
        self._more = more  # the store host; with it a detail and the sizes of a batch where there are any

    @property
    def ok(self) -> bool:
        return self.status is _OK

    @property
    def detail(self) -> str | None:
        return self._more[1] if isinstance(self._more, tuple) else None

    @property
    def _sizes(self) -> list[int]:
        sizes = self._more[2] if isinstance(self._more, tuple) else None
        return [self.size] if sizes is None else sizes

    @property
    def count(self) -> int:
        """Messages stored by this put."""
        return len(self._sizes) if self.physical_offset >= 0 else 0

    @property
    def message_ids(self) -> list[str]:
        """Offset ids, one a message."""
        if self.physical_offset < 0:
            return []
        host = self._host
        return [f"{host}{offset:016X}" for offset in self._offsets]

    @property
    def message_id(self) -> str:
        """Offset id; for a batch the ids joined by commas, as RocketMQ answers."""
        if self.physical_offset < 0:
            return ""
        if not isinstance(self._more, tuple):
            return f"{self._more.hex().upper()}{self.physical_offset:016X}"
        # A batch may have tens of thousands: in one go they take a fifth of the time of joining ``message_ids``.
        offsets, host = array("q", self._offsets), self._host
        if byteorder == "little":
            offsets.byteswap()
        return host + offsets.tobytes().hex(",", 8).upper().replace(",", f",{host}")

    @property
    def _host(self) -> str:
        return (self._more[0] if isinstance(self._more, tuple) else self._more).hex().upper()

    @property
    def _offsets(self) -> list[int]:
        return list(accumulate(self._sizes[:-1], initial=self.physical_offset))

    def __repr__(self) -> str:
        if self.physical_offset < 0:
            return f"PutResult({self.status.name}, {self.detail!r})"
        return (
            f"PutResult({self.status.name}, queue_offset={self.queue_offset}, physical_offset={self.physical_offset})"
        )
