"""The record of the commit log: its layout as tables and structs, shared by writer, reader and checker.

    at         size  field                         note
     0            4  TOTALSIZE                     whole record, this field included
     4            4  MAGICCODE                     V1: topic length in 1 byte, V2: in 2 bytes
     8            4  BODYCRC                       of the stored body, sign bit cleared
    12            4  QUEUEID
    16            4  FLAG                          the application's, not interpreted
    20            8  QUEUEOFFSET                   patched when the place in the queue is known
    28            8  PHYSICALOFFSET                patched when the place in the log is known
    36            4  SYSFLAG                       see sys_flag.py; tells the size of the two hosts
    40            8  BORNTIMESTAMP
    48            b  BORNHOST                      b = 8 (IPv4) or 20 (IPv6)
    48+b          8  STORETIMESTAMP                patched inside the append lock
    56+b          s  STOREHOST                     s = 8 or 20
    56+b+s        4  RECONSUMETIMES
    60+b+s        8  PREPAREDTRANSACTIONOFFSET
    68+b+s        4  BODYLENGTH
    72+b+s     body  BODY
               1, 2  TOPICLENGTH                   i8 in V1, i16 in V2
              topic  TOPIC
                  2  PROPERTIESLENGTH              i16, signed; zero or less means none
              props  PROPERTIES                    see properties.py and record/crc.py

All integers are big-endian and signed. Records follow each other without a gap and never span two files; the
rest of a file is a blank: remaining size i32, ``MAGIC_BLANK`` i32, then anything at all.
"""

from __future__ import annotations

import struct

from flaremq.message.sys_flag import BORN_HOST_V6, STORE_HOST_V6

MAGIC_V1 = -626843481  # DA A3 20 A7
MAGIC_V2 = -626843477  # DA A3 20 AB
MAGIC_BLANK = -875286124  # CB D4 31 94

# A file keeps room for a blank header behind its last record, so an append of n bytes needs n + 8.
BLANK = struct.Struct(">ii")
assert BLANK.size == 8

# Everything up to and with BORNTIMESTAMP: the part whose place does not depend on the hosts.
HEADER = struct.Struct(">iiiiiqqiq")
assert HEADER.size == 48

# Everything before the body, by size of (born host, store host).
PREFIX_V4 = struct.Struct(">iiiiiqqiq 8sq 8siqi")
PREFIXES = {
    (8, 8): PREFIX_V4,
    (20, 8): struct.Struct(">iiiiiqqiq 20sq 8siqi"),
    (8, 20): struct.Struct(">iiiiiqqiq 8sq 20siqi"),
    (20, 20): struct.Struct(">iiiiiqqiq 20sq 20siqi"),
}
assert PREFIX_V4.size == 88 and PREFIXES[20, 20].size == 112

# The same four, by the two IPv6 bits of SYSFLAG (``sys_flag >> 4 & 3``).
PREFIX_BY_FAMILY = (PREFIXES[8, 8], PREFIXES[20, 8], PREFIXES[8, 20], PREFIXES[20, 20])
BODY_AT_BY_FAMILY = tuple(prefix.size for prefix in PREFIX_BY_FAMILY)

MAGIC_AT = 4
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_HOST_AT = 48

# QUEUEOFFSET and PHYSICALOFFSET stand side by side: one patch for both.
OFFSETS = struct.Struct(">qq")
TIMESTAMP = struct.Struct(">q")
INT = struct.Struct(">i")
SHORT = struct.Struct(">h")

TOPIC_BYTES_V1_MAX = 127
RECORD_SIZE_MIN = PREFIX_V4.size + 1 + 2


def store_timestamp_at(sys_flag: int) -> int:
    """Byte of STORETIMESTAMP within a record with this SYSFLAG."""
    return 68 if sys_flag & BORN_HOST_V6 else 56


def body_at(sys_flag: int) -> int:
    """Byte of BODY within a record with this SYSFLAG."""
    return BODY_AT_BY_FAMILY[(sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)) >> 4]
