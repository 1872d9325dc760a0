"""CRC-32 with the zlib polynomial; compiled modules take the C of ``crc32.h`` instead."""

from __future__ import annotations

from zlib import crc32

from flaremq.core.memory import View


def crc32_at(view: View, at: int, length: int) -> int:
    """zlib's CRC-32 of a range, 0..2^32-1."""
    return crc32(view.data[at : at + length])
