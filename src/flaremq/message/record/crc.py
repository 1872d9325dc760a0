"""The two checksums of a record.

``BODYCRC`` covers the stored body bytes alone. The optional record checksum covers everything before it in
the record; it is kept as the last property, always ``CRC_PROPERTY_SIZE`` bytes long, so that it can be
written in place once queue offset, physical offset and store time are known:

    at  size  field
     0     8  key, "__CRC32#"
     8     1  0x01
     9    10  decimal digits, least significant first, filled up with "0" on the right
    19     1  0x02

Both are CRC-32 with the zlib polynomial and the sign bit cleared, because Java keeps them in an ``int``.
"""

from __future__ import annotations

from zlib import crc32

CRC_PROPERTY_PREFIX = b"__CRC32#\x01"
CRC_PROPERTY_SIZE = 20
assert len(CRC_PROPERTY_PREFIX) + 10 + 1 == CRC_PROPERTY_SIZE
_ANNOUNCED = b"\x02" + CRC_PROPERTY_PREFIX
_ANNOUNCED_BITS = int.from_bytes(_ANNOUNCED, "big")


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """Checksum of a stored body; 0 for an empty one."""
    return crc32(body) & 0x7FFFFFFF


def record_crc(record: bytes | bytearray | memoryview) -> int:
    """Checksum of a whole record whose last 20 bytes are (or will be) the checksum property."""
    with memoryview(record) as view:
        return crc32(view[: len(view) - CRC_PROPERTY_SIZE]) & 0x7FFFFFFF


def crc_property(checksum: int) -> bytes:
    """The property that carries a record checksum."""
    return CRC_PROPERTY_PREFIX + (b"%010d" % checksum)[::-1] + b"\x02"


def has_crc_property(properties: bytes) -> bool:
    """Whether a stored properties string ends with the checksum property.

    Damage must count as a checksum that does not match, never as "this record has none": digits and
    terminator are not looked at, and one flipped bit in the announcement (the 0x02 before the key, the key,
    the 0x01) is overlooked. More than that makes it another property, as one of an application would be.
    """
    announced = properties[-CRC_PROPERTY_SIZE - 1 : -CRC_PROPERTY_SIZE + len(CRC_PROPERTY_PREFIX)]
    if announced == _ANNOUNCED:
        return True
    if announced.endswith(CRC_PROPERTY_PREFIX) and properties[-11:-1].isdigit() and properties[-1] == 2:
        return True  # all of it but the byte before: no put takes another property that looks like this
    if len(properties) == CRC_PROPERTY_SIZE:
        announced = b"\x02" + properties[: len(CRC_PROPERTY_PREFIX)]
    if len(announced) != len(_ANNOUNCED):
        return False
    return (int.from_bytes(announced, "big") ^ _ANNOUNCED_BITS).bit_count() <= 1
