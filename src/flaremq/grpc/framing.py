"""gRPC's own framing on a stream of HTTP/2: messages with their length before them, times and texts in headers.

at  size  field
 0     1  1 if the message is compressed
 1     4  length of the message
 5        the message
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

from flaremq.grpc.call import GrpcError, StatusCode

PREFIX: Final = Struct(">BI")
PREFIX_SIZE: Final = 5
assert PREFIX.size == PREFIX_SIZE  # fixed by gRPC
_unpack_prefix = PREFIX.unpack_from
ENCODINGS: Final = "identity,gzip,deflate"
_WINDOW_BITS: Final = {"gzip": 31, "deflate": 15}


def prefixed(message: bytes) -> bytes:
    """A message as it is sent."""
    return PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Puts the messages of one stream together."""

    __slots__ = ("_buffer", "_encoding", "_size_max", "missing")

    def __init__(self, size_max: int, encoding: str) -> None:
        """GrpcError if the client compresses in a way that is not known here."""
        if encoding not in ("", "identity", "gzip", "deflate"):
            raise GrpcError(StatusCode.UNIMPLEMENTED, f"grpc-encoding {encoding[:64]!r} is not known: use {ENCODINGS}")
        self._size_max = size_max
        self._encoding = encoding
        self._buffer: bytearray | None = None
        self.missing = 0  # bytes of the message under way that have not come; 0 as well if none is

    @property
    def buffered(self) -> int:
        """Bytes of a message that is not complete."""
        return 0 if self._buffer is None else len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are complete now. GrpcError for what cannot be read."""
        if self._buffer is None:
            size = len(data)
            if size >= PREFIX_SIZE:
                flag, length = _unpack_prefix(data)
                if length == size - PREFIX_SIZE and not flag:  # one message, whole: as nearly all come
                    if length > self._size_max:
                        raise self._too_large(length)
                    return [data[PREFIX_SIZE:]]
            elif not size:
                return []
            self._buffer = bytearray(data)
        else:
            self._buffer += data
        return self._take()

    def _take(self) -> list[bytes]:
        buffer = self._buffer
        assert buffer is not None
        found = []
        at, end = 0, len(buffer)
        self.missing = 0
        while end - at >= PREFIX_SIZE:
            flag, length = _unpack_prefix(buffer, at)
            if length > self._size_max:
                raise self._too_large(length)
            if flag > 1:
                raise GrpcError(StatusCode.INTERNAL, f"a message with the flag {flag}")
            begin = at + PREFIX_SIZE
            if end - begin < length:
                self.missing = length - (end - begin)
                break
            at = begin + length
            message = bytes(memoryview(buffer)[begin:at])
            found.append(self._inflate(message) if flag else message)
        if at == end:
            self._buffer = None
        elif at:
            del buffer[:at]
        return found

    def _too_large(self, length: int) -> GrpcError:
        text = f"a message of {length} bytes; {self._size_max} are allowed"
        return GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)

    def _inflate(self, data: bytes) -> bytes:
        bits = _WINDOW_BITS.get(self._encoding)
        if bits is None:
            raise GrpcError(StatusCode.INTERNAL, "a compressed message without grpc-encoding")
        inflating = zlib.decompressobj(bits)
        try:
            message = inflating.decompress(data, self._size_max + 1)
        except zlib.error as error:
            raise GrpcError(StatusCode.INTERNAL, f"a compressed message cannot be read: {error}") from None
        if len(message) > self._size_max:
            raise self._too_large(len(message))
        if not inflating.eof:
            raise GrpcError(StatusCode.INTERNAL, "a compressed message is cut off")
        return message


_UNITS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def parse_timeout(text: str) -> float:
    """Seconds of a ``grpc-timeout``. ValueError if it is none."""
    digits = text[:-1]
    unit = _UNITS.get(text[-1:])
    if unit is None or not 0 < len(digits) <= 8 or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"grpc-timeout {text[:32]!r} is no time")
    return int(digits) * unit


_TEXT_MAX: Final = 1024


def percent_encoded(text: str) -> str:
    """A text as ``grpc-message`` carries it."""
    text = text[:_TEXT_MAX]
    if text.isascii() and text.isprintable() and "%" not in text:
        return text
    return "".join([chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}" for byte in _utf8(text)])


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
