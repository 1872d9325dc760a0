"""Host and message-id columns of a scan: bytes at fixed places of the records, formatted in bulk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Bytes, Integers
from flaremq.core.gather import gather
from flaremq.core.table import FILE_OFFSET, PHYSICAL_OFFSET, SYS_FLAG
from flaremq.message.hosts import format_host
from flaremq.message.message_id import encode_message_id

_BORN_HOST_AT = 48
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)


def _host_bytes(log: Bytes, rows: Integers, *, store: bool) -> list[bytes] | Bytes:
    """Stored hosts: an (n, 8) array when all are IPv4, else a list."""
    sys_flags, at = rows[SYS_FLAG], rows[FILE_OFFSET] + _BORN_HOST_AT
    born_v6, store_v6 = sys_flags & 0x10 != 0, sys_flags & 0x20 != 0
    if store:
        at = at + np.where(born_v6, 20, 8) + 8
    wide = store_v6 if store else born_v6
    if not wide.any():
        narrow = np.empty(8 * len(at), np.uint8)
        gather(log, at, np.full(len(at), 8), np.empty(len(at) + 1, np.int32), narrow)
        return narrow.reshape(-1, 8)
    sizes = np.where(wide, 20, 8)
    return [log[a : a + n].tobytes() for a, n in zip(at.tolist(), sizes.tolist(), strict=True)]


def host_column(log: Bytes, rows: Integers, *, store: bool) -> pa.Array:
    """Hosts as text; few differ in a batch, so each is formatted once."""
    hosts = _host_bytes(log, rows, store=store)
    if isinstance(hosts, list):
        return pa.array([format_host(host) for host in hosts], pa.string())
    if not len(hosts):
        return pa.array([], pa.string())
    numbers = hosts.view(np.int64).ravel()
    if (numbers == numbers[0]).all():
        return pa.repeat(pa.scalar(format_host(hosts[0].tobytes()), pa.string()), len(numbers))
    values, places = np.unique(numbers, return_inverse=True)
    texts = pa.array([format_host(value.tobytes()) for value in values], pa.string())
    return texts.take(pa.array(places))


def message_id_column(log: Bytes, rows: Integers) -> pa.Array:
    """Offset ids: host and physical offset in upper-case hex."""
    hosts = _host_bytes(log, rows, store=True)
    physical = rows[PHYSICAL_OFFSET]
    count = len(physical)
    if isinstance(hosts, list):
        pairs = zip(hosts, physical.tolist(), strict=True)
        return pa.array([encode_message_id(host, offset) for host, offset in pairs], pa.string())
    raw = np.empty((count, 16), np.uint8)
    raw[:, :8] = hosts
    raw[:, 8:] = physical.astype(">i8").view(np.uint8).reshape(count, 8)
    data = _HEX[raw]
    offsets = np.arange(0, 32 * count + 1, 32, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
