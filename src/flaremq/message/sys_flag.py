"""The SYSFLAG word of a record.

 bit   value   meaning
   0   0x1     body is compressed
   1   0x2     topic is of the multi-tag filter type
 2-3   0xC     transaction type (``TransactionType``)
   4   0x10    born host is IPv6
   5   0x20    store host is IPv6
   6   0x40    body needs unwrapping on delivery (set together with bit 7)
   7   0x80    inner batch: the body holds several messages in batch form
8-10   0x700   compression type: 0 zlib of old producers, 1 LZ4 frame, 2 Zstandard, 3 zlib
"""

from __future__ import annotations

from enum import IntEnum

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
HOST_V6_MASK = BORN_HOST_V6 | STORE_HOST_V6
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE_MASK = 0x700
COMPRESSION_TYPE_SHIFT = 8


class TransactionType(IntEnum):
    """Values are the bits as they stand in SYSFLAG."""

    NONE = 0x0
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC


class CompressionType(IntEnum):
    """Values are the number in bits 8-10. ``ZLIB_OLD`` is what producers before 5.0 leave there."""

    ZLIB_OLD = 0
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


_TRANSACTION_TYPES = tuple(TransactionType)


def transaction_type(sys_flag: int) -> TransactionType:
    return _TRANSACTION_TYPES[(sys_flag >> 2) & 3]


def with_transaction_type(sys_flag: int, kind: TransactionType) -> int:
    return (sys_flag & ~TRANSACTION_MASK) | kind


def compression_type(sys_flag: int) -> int:
    """The raw number 0-7; 4 and above are not defined and cannot be inflated."""
    return (sys_flag & COMPRESSION_TYPE_MASK) >> COMPRESSION_TYPE_SHIFT


def with_compression(sys_flag: int, kind: CompressionType) -> int:
    return (sys_flag & ~COMPRESSION_TYPE_MASK) | COMPRESSED | (kind << COMPRESSION_TYPE_SHIFT)


def with_host_families(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """The flag with both IPv6 bits set as the two stored hosts (8 or 20 bytes) demand."""
    flag = sys_flag & ~HOST_V6_MASK
    if len(born_host) == 20:
        flag |= BORN_HOST_V6
    if len(store_host) == 20:
        flag |= STORE_HOST_V6
    return flag


def gets_queue_unit(sys_flag: int) -> bool:
    """Types none and commit have a place in a consume queue; prepared and rollback have none."""
    return not sys_flag & 0x4


def gets_index_entry(sys_flag: int) -> bool:
    """Every type but rollback is indexed."""
    return sys_flag & TRANSACTION_MASK != TransactionType.ROLLBACK
