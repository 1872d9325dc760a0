"""Inflating stored bodies (and compressing, for senders): zlib, LZ4 frames, Zstandard.

A stored body is whatever some producer sent, and a few bytes can announce gigabytes. So output is produced in
steps and counted: at the cap we stop, with at most one step (``_STEP``, for Zstandard 4 MiB) beyond it in
memory, and no size that the data announces is ever allocated.

LZ4 and Zstandard come from optional packages, imported when the first such body is met.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.sys_flag import CompressionType

# RocketMQ's largest message is 4 MiB stored; nothing sensible inflates to more than this.
INFLATED_SIZE_MAX = 64 * 1024 * 1024

_STEP = 256 * 1024
# A Zstandard block of 4 bytes can stand for 128 KiB, so 128 bytes of input make at most 4 MiB of output.
_ZSTD_INPUT_STEP = 128
# Senders make one frame. Each of them costs time however little it holds, and a body has room for 400,000 empty ones.
_FRAMES_MAX = 256

_DEFAULT_LEVEL = 5  # what RocketMQ's producer uses


def inflate(
    data: bytes | bytearray | memoryview, compression_type: int, inflated_size_max: int = INFLATED_SIZE_MAX
) -> bytes:
    """The original of a compressed body, at most ``inflated_size_max`` bytes.

    Data that is damaged, incomplete, of an undefined type or larger than the cap is a ``CorruptionError``.
    """
    if inflated_size_max <= 0:
        raise InvalidArgumentError(f"inflated_size_max is {inflated_size_max}, it must be positive")
    steps = _INFLATERS.get(compression_type)
    if steps is None:
        raise CorruptionError("undefined compression type", expected="0, 1, 2 or 3", found=compression_type)
    parts = []
    total = 0
    for part in steps(data):
        total += len(part)
        if total > inflated_size_max:
            raise CorruptionError("body inflates to too much", expected=inflated_size_max, found="more")
        parts.append(part)
    return b"".join(parts)


def compress(body: bytes | bytearray | memoryview, kind: CompressionType, level: int = _DEFAULT_LEVEL) -> bytes:
    """A body in the form RocketMQ's consumers of the given type read."""
    if kind in (CompressionType.ZLIB, CompressionType.ZLIB_OLD):
        return zlib.compress(body, level)
    if kind is CompressionType.LZ4:
        compressed: bytes = _import("lz4.frame").compress(body, compression_level=level)
        return compressed
    compressed = _import("zstandard").ZstdCompressor(level=level).compress(body)
    return compressed


def _zlib_steps(data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    # Bytes behind the end of the stream are ignored, as Java's inflater does.
    decompressor = zlib.decompressobj()
    pending: bytes | bytearray | memoryview = data
    while not decompressor.eof:
        try:
            part = decompressor.decompress(pending, _STEP)
        except zlib.error as error:
            raise CorruptionError(f"zlib body is damaged: {error}") from None
        pending = decompressor.unconsumed_tail
        if not part and not pending and not decompressor.eof:
            raise CorruptionError("zlib body is incomplete")
        yield part


def _lz4_steps(data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    frame = _import("lz4.frame")
    pending = bytes(data)
    for _ in range(_FRAMES_MAX):  # a body may be several frames
        decompressor = frame.LZ4FrameDecompressor()
        while not decompressor.eof:
            try:
                part: bytes = decompressor.decompress(pending, _STEP)
            except (RuntimeError, ValueError, MemoryError) as error:
                raise CorruptionError(f"LZ4 body is damaged: {error}") from None
            pending = b""  # the decompressor keeps what it could not use yet
            if not part and decompressor.needs_input and not decompressor.eof:
                raise CorruptionError("LZ4 body is incomplete")
            yield part
        pending = decompressor.unused_data or b""
        if not pending:
            return
    raise CorruptionError("LZ4 body has too many frames", expected=_FRAMES_MAX, found="more")


def _zstd_steps(data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    zstandard = _import("zstandard")
    pending = memoryview(data)
    for _ in range(_FRAMES_MAX):  # a body may be several frames
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        while not decompressor.eof:
            if not pending:
                raise CorruptionError("Zstandard body is incomplete")
            step, pending = pending[:_ZSTD_INPUT_STEP], pending[_ZSTD_INPUT_STEP:]
            try:
                part: bytes = decompressor.decompress(step)
            except zstandard.ZstdError as error:
                raise CorruptionError(f"Zstandard body is damaged: {error}") from None
            yield part
        unused = len(decompressor.unused_data)
        pending = memoryview(data)[len(data) - len(pending) - unused :]
        if not pending:
            return
    raise CorruptionError("Zstandard body has too many frames", expected=_FRAMES_MAX, found="more")


def _import(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise InvalidArgumentError(f"this body needs the package {name!r}: pip install {name}") from None


_INFLATERS: dict[int, Callable[[bytes | bytearray | memoryview], Iterator[bytes]]] = {
    CompressionType.ZLIB_OLD: _zlib_steps,
    CompressionType.LZ4: _lz4_steps,
    CompressionType.ZSTD: _zstd_steps,
    CompressionType.ZLIB: _zlib_steps,
}
