"""The two ids a message is known by.

The *offset id* names a place: store host and physical offset of the record, so any broker that has the
record can find it without an index. Nothing stores it; it is rebuilt from the record.

    IPv4, 16 bytes: address 4, port i32, physical offset i64      -> 32 upper-case hex characters
    IPv6, 28 bytes: address 16, port i32, physical offset i64     -> 56

The *unique key* is made by the client that creates the message and travels as property ``UNIQ_KEY``. The
store treats it as an opaque string; ``UniqueKeyFactory`` makes ours in the layout of the Java client.
"""

from __future__ import annotations

import struct
import threading
import time

from flaremq.errors import InvalidArgumentError
from flaremq.message.hosts import format_host

_OFFSET = struct.Struct(">q")
_KEY_TAIL = struct.Struct(">IH")


def encode_message_id(store_host: bytes, physical_offset: int) -> str:
    """Offset id of the record at ``physical_offset``; ``store_host`` as stored (8 or 20 bytes)."""
    return (store_host + _OFFSET.pack(physical_offset)).hex().upper()


def decode_message_id(message_id: str) -> tuple[str, int]:
    """``(store host as text, physical offset)`` of an offset id."""
    try:
        raw = bytes.fromhex(message_id) if len(message_id) in (32, 56) else b""
    except ValueError:
        raw = b""
    if len(raw) not in (16, 28):
        raise InvalidArgumentError(f"message id {message_id!r} is not 32 or 56 hexadecimal characters")
    return format_host(raw[:-8]), _OFFSET.unpack(raw[-8:])[0]


class UniqueKeyFactory:
    """Makes ``UNIQ_KEY`` values: address, process, instance, milliseconds of the month, counter.

    Unique as long as one process makes fewer than 65,536 keys a millisecond. Safe to call from any thread.
    """

    __slots__ = ("_counter", "_lock", "_month_end_ms", "_month_start_ms", "_prefix")

    def __init__(self, *, address: bytes, process_id: int, instance_hash: int) -> None:
        if len(address) not in (4, 16):
            raise InvalidArgumentError(f"address of {len(address)} bytes, expected 4 or 16")
        self._prefix = (address + struct.pack(">HI", process_id & 0xFFFF, instance_hash & 0xFFFFFFFF)).hex().upper()
        self._lock = threading.Lock()  # guards the three fields below
        self._counter = 0
        self._month_start_ms = 0
        self._month_end_ms = 0

    def make(self, now_ms: int) -> str:
        with self._lock:
            if now_ms >= self._month_end_ms:
                self._month_start_ms, self._month_end_ms = _month_bounds_ms(now_ms)
            counter = self._counter
            self._counter = (counter + 1) & 0xFFFF
            # A clock that stepped back over the start of the month counts from there.
            elapsed = max(0, now_ms - self._month_start_ms)
        return self._prefix + _KEY_TAIL.pack(elapsed & 0xFFFFFFFF, counter).hex().upper()


def _month_bounds_ms(now_ms: int) -> tuple[int, int]:
    """Local midnight of the first day of this month and of the next."""
    local = time.localtime(now_ms / 1000)
    start = time.mktime((local.tm_year, local.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    end = time.mktime((local.tm_year, local.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1))
    return int(start) * 1000, int(end) * 1000
