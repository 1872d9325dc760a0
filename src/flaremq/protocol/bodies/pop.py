"""Acknowledging many popped messages in one request."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, Bean, Misfit, row
from flaremq.protocol.bodies.bean_rows import beans, integer, long, text

_LONG_NAMES = {
    "c": "consumerGroup",
    "t": "topic",
    "r": "retry",
    "so": "startOffset",
    "q": "queueId",
    "rq": "reviveQueueId",
    "pt": "popTime",
    "it": "invisibleTime",
    "b": "bitSet",
}
_BIT_SET_SIZE_MAX = 1024  # 8,192 messages, where a pop takes 32 at most


def _read_bits(value: Any) -> int:
    """Java's BitSet, little-endian bytes as base64; fastjson 2 may also write the bytes as a list of numbers."""
    if isinstance(value, str):
        if len(value) > 2 * _BIT_SET_SIZE_MAX:
            raise Misfit(f"at most {_BIT_SET_SIZE_MAX} bytes of bits")
        try:
            return int.from_bytes(base64.b64decode(value, validate=True), "little")
        except (binascii.Error, ValueError):
            raise Misfit("bits in base64") from None
    if not isinstance(value, list) or len(value) > _BIT_SET_SIZE_MAX:
        raise Misfit("bits in base64")
    if not all(type(item) is int and -128 <= item <= 255 for item in value):
        raise Misfit("bits in base64")
    return int.from_bytes(bytes(item & 0xFF for item in value), "little")


def _write_bits(bits: int) -> str:
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAck(Bean):
    """Messages of one pop: those at ``start_offset`` plus each bit that is set. Long names are read, too."""

    consumer_group: str = text("c")
    topic: str = text("t")
    retry: str = text("r", default="0")
    start_offset: int = long("so")
    queue_id: int = integer("q")
    revive_queue_id: int = integer("rq")
    pop_time: int = long("pt")
    invisible_time: int = long("it")
    bits: int = row("b", _read_bits, _write_bits, default=0)

    @classmethod
    def adapt(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Java takes either name of each property."""
        return {short: value.get(short, value.get(long_name)) for short, long_name in _LONG_NAMES.items()}

    def positions(self) -> Iterator[int]:
        """The numbers of the bits that are set, in order."""
        rest = self.bits
        while rest:
            lowest = rest & -rest
            yield lowest.bit_length() - 1
            rest ^= lowest


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAckMessageRequestBody(Bean):
    """BATCH_ACK_MESSAGE."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    broker_name: str = text()
    acks: tuple[BatchAck, ...] = beans(BatchAck)
