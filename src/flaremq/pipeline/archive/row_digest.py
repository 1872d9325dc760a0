"""RowDigest: one number for a set of messages, the same for the log, a cluster and an archive.

Each row is hashed over what its record says (place, size, flags, times, the CRC of the body as a reader gets it, the
properties), and the hashes are summed. So the digest of a queue is the sum of the digests of its pieces, in any order
and cut in any way; two places that agree on count and digest hold the same messages. It finds mistakes and damage,
not an adversary: it is no cryptographic hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import ArrowOffsets, Bytes, Integers
from flaremq.core.digest import crc_slices, digest_fields, hash_entries
from flaremq.errors import InvalidArgumentError

_NUMBERS: Final = (
    "queueId",
    "queueOffset",
    "physicalOffset",
    "storeSize",
    "flag",
    "sysFlag",
    "bornTimestamp",
    "storeTimestamp",
    "reconsumeTimes",
)
# The columns a batch must have to be digested; the order of the fields is part of the digest.
DIGEST_COLUMNS: Final = (*_NUMBERS, "body", "properties")
FIELDS: Final = (*_NUMBERS[:-3], "bornTimestampMs", "storeTimestampMs", "reconsumeTimes", "bodyCrc", "propertiesHash")
_MASK: Final = (1 << 64) - 1
_TIMES: Final = frozenset(("bornTimestamp", "storeTimestamp"))


@dataclass(frozen=True, slots=True)
class RowDigest:
    """The sum over ``count`` rows. The empty one is the neutral element of ``+``."""

    count: int = 0
    low: int = 0
    high: int = 0

    def __add__(self, other: RowDigest) -> RowDigest:
        return RowDigest(self.count + other.count, (self.low + other.low) & _MASK, (self.high + other.high) & _MASK)

    def __sub__(self, other: RowDigest) -> RowDigest:
        return RowDigest(self.count - other.count, (self.low - other.low) & _MASK, (self.high - other.high) & _MASK)

    @property
    def text(self) -> str:
        """The two sums as 32 hexadecimal digits; the count is told apart from it."""
        return f"{self.high:016x}{self.low:016x}"

    @classmethod
    def from_text(cls, count: int, text: str) -> RowDigest:
        if len(text) != 32:
            raise InvalidArgumentError(f"{text!r} is no row digest: 32 hexadecimal digits are expected")
        return cls(count, int(text[16:], 16), int(text[:16], 16))


def digest_batch(batch: pa.RecordBatch) -> RowDigest:
    """The digest of a batch that has at least ``DIGEST_COLUMNS``."""
    fields = np.empty((len(FIELDS), batch.num_rows), np.int64)
    for number, name in enumerate(_NUMBERS):
        values = batch.column(name)
        if name in _TIMES:
            fields[number] = _milliseconds(values)
        else:
            fields[number] = values.to_numpy(zero_copy_only=False)
    fields[-2] = body_crcs(batch.column("body"))
    fields[-1] = properties_hashes(batch.column("properties"))
    return digest_numbers(fields)


def digest_numbers(fields: Integers) -> RowDigest:
    """The digest of rows given by their numbers: ``fields[k]`` is ``FIELDS[k]`` of every row, int64, C order.

    For those who walk the log and have a checked ``bodyCrc`` at hand; it is the CRC of the body as readers get it, so
    of the inflated one where a body is stored compressed.
    """
    low, high = digest_fields(np.ascontiguousarray(fields), fields.shape[0])
    return RowDigest(fields.shape[1], low, high)


def body_crcs(bodies: pa.Array) -> Integers:
    """CRC-32 of each value of a string or binary array, sign bit cleared; 0 for an empty or absent one."""
    out = np.zeros(len(bodies), np.int64)
    if len(bodies):
        offsets, data = _slices(bodies)
        crc_slices(data, offsets, out)
    return out


def properties_hashes(properties: pa.MapArray) -> Integers:
    """A hash of each map of properties, whatever the order of its entries."""
    out = np.zeros(len(properties), np.int64)
    if not len(properties):
        return out
    offsets = np.frombuffer(properties.buffers()[1], np.int32)[properties.offset :][: len(properties) + 1]
    if offsets[0] == offsets[-1]:
        return out
    keys = properties.keys[int(offsets[0]) : int(offsets[-1])]
    items = properties.items[int(offsets[0]) : int(offsets[-1])]
    hash_entries(np.ascontiguousarray(offsets - offsets[0]), body_crcs(keys), body_crcs(items), out)
    return out


def _slices(values: pa.Array) -> tuple[ArrowOffsets, Bytes]:
    _, offsets, data = values.buffers()
    places: ArrowOffsets = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1]
    content: Bytes = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return places, content


def _milliseconds(times: pa.Array) -> Integers:
    per_millisecond = {"ms": 1, "us": 1000, "ns": 1_000_000}[times.type.unit]
    raw: Integers = times.view(pa.int64()).to_numpy(zero_copy_only=False)
    return raw // per_millisecond
