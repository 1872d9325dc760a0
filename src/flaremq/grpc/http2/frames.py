"""Frames of HTTP/2 as bytes: their kinds, flags and error codes, and those that we write.

at  size  field
 0     3  length    of what follows the nine bytes
 3     1  kind
 4     1  flags
 5     4  stream    the highest bit is reserved
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: Final = Struct(">HBBBI")  # the length comes in two pieces
HEAD_SIZE: Final = 9
assert HEAD.size == HEAD_SIZE
SETTING: Final = Struct(">HI")
WORD: Final = Struct(">I")
FRAME_SIZE_MIN: Final = 16_384  # what everybody must take
WINDOW_DEFAULT: Final = 65_535
WINDOW_MAX: Final = 2**31 - 1
TABLE_SIZE_DEFAULT: Final = 4096

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """What an end of a connection tells the other about itself."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


def head(length: int, kind: int, flags: int, stream: int) -> bytes:
    """The nine bytes before what a frame carries."""
    return HEAD.pack(length >> 8, length & 255, kind, flags, stream)


def settings(values: dict[Setting, int]) -> bytes:
    body = b"".join([SETTING.pack(key, value) for key, value in values.items()])
    return head(len(body), SETTINGS, 0, 0) + body


def reset(stream: int, code: int) -> bytes:
    return head(4, RST_STREAM, 0, stream) + WORD.pack(code)


def window_update(stream: int, size: int) -> bytes:
    return head(4, WINDOW_UPDATE, 0, stream) + WORD.pack(size)


def go_away(last_stream: int, code: int, reason: str = "") -> bytes:
    text = reason.encode("ascii", "replace")[:256]
    return head(8 + len(text), GOAWAY, 0, 0) + WORD.pack(last_stream) + WORD.pack(code) + text


SETTINGS_ACK: Final = head(0, SETTINGS, ACK, 0)
PING_ACK_HEAD: Final = head(8, PING, ACK, 0)
