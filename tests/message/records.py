"""A record to start from: the vector of the format description, with any field changed."""

from __future__ import annotations

from typing import Any

from flaremq.message.hosts import encode_host
from flaremq.message.record.codec import encode_record

# topic TopicTest, body hello, TAGS=TagA, KEYS=key1, queue 3, queue offset 7, physical offset 1234.
VECTOR = bytes.fromhex(
    "0000007ddaa320a73610a6860000000300000000000000000000000700000000000004d200000000"
    "0000018bcfe56800c0a80001000027100000018bcfe5687b0a00000500002a9f0000000000000000"
    "000000000000000568656c6c6f09546f706963546573740014544147530154616741024b45595301"
    "6b65793102"
)

VECTOR_FIELDS: dict[str, Any] = {
    "topic": b"TopicTest",
    "body": b"hello",
    "properties": b"TAGS\x01TagA\x02KEYS\x01key1\x02",
    "queue_id": 3,
    "queue_offset": 7,
    "physical_offset": 1234,
    "born_timestamp": 1700000000000,
    "born_host": encode_host("192.168.0.1:10000"),
    "store_timestamp": 1700000000123,
    "store_host": encode_host("10.0.0.5:10911"),
}


def make_record(**changes: Any) -> bytes:
    return encode_record(**(VECTOR_FIELDS | changes))


def flip(data: bytes, at: int, bit: int = 0) -> bytes:
    """The same bytes with one bit changed."""
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)
