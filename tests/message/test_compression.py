from __future__ import annotations

import contextlib
import random
import tracemalloc
import zlib

import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.compression import compress, inflate
from flaremq.message.sys_flag import CompressionType

KINDS = list(CompressionType)


def sample(size: int) -> bytes:
    return random.Random(size).randbytes(size // 2) + b"a" * (size - size // 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 100, 65536, 300_000])
def test_every_type_inflates_what_it_compressed(kind: CompressionType, size: int) -> None:
    packed = compress(sample(size), kind)
    assert inflate(packed, kind) == sample(size)
    assert inflate(memoryview(packed), kind, max(1, size)) == sample(size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 300, 70_000])
def test_incomplete_data_is_corruption(kind: CompressionType, size: int) -> None:
    packed = compress(sample(size), kind)
    for cut in {0, 1, 2, 5, len(packed) // 2, len(packed) - 1}:
        with pytest.raises(CorruptionError):
            inflate(packed[:cut], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_or_random_data_raises_nothing_but_corruption(kind: CompressionType) -> None:
    chance = random.Random(7)
    packed = compress(sample(500), kind)
    candidates = [chance.randbytes(chance.randrange(100)) for _ in range(300)]
    for at in range(len(packed)):
        changed = bytearray(packed)
        changed[at] ^= 1 << chance.randrange(8)
        candidates.append(bytes(changed))
    for data in candidates:
        with contextlib.suppress(CorruptionError):
            inflate(data, kind, 100_000)


@pytest.mark.parametrize("kind", [CompressionType.LZ4, CompressionType.ZSTD])
def test_several_frames_inflate_to_their_sum(kind: CompressionType) -> None:
    assert inflate(compress(b"one", kind) + compress(b"two", kind), kind) == b"onetwo"


def test_bytes_behind_a_zlib_stream_are_ignored() -> None:
    assert inflate(zlib.compress(b"one") + b"rest", CompressionType.ZLIB) == b"one"


@pytest.mark.parametrize("kind", KINDS)
def test_cap_is_exact(kind: CompressionType) -> None:
    packed = compress(bytes(100_000), kind)
    assert len(inflate(packed, kind, 100_000)) == 100_000
    with pytest.raises(CorruptionError, match="too much"):
        inflate(packed, kind, 99_999)


@pytest.mark.parametrize("kind", KINDS)
def test_bomb_stops_at_the_cap_without_much_memory(kind: CompressionType) -> None:
    bomb = compress(bytes(64 * 1024 * 1024), kind)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError, match="too much"):
            inflate(bomb, kind, 1024 * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * 1024 * 1024


@pytest.mark.parametrize("kind", [CompressionType.LZ4, CompressionType.ZSTD])
def test_frames_without_end_are_not_read_to_their_end(kind: CompressionType) -> None:
    few = compress(b"x", kind) * 10
    assert inflate(few, kind) == b"x" * 10
    with pytest.raises(CorruptionError, match="too many frames"):
        inflate(compress(b"", kind) * 100_000, kind)


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_undefined_type_is_corruption(kind: int) -> None:
    with pytest.raises(CorruptionError, match="undefined compression type"):
        inflate(b"x", kind)


def test_cap_must_be_positive() -> None:
    with pytest.raises(InvalidArgumentError, match="inflated_size_max"):
        inflate(b"x", CompressionType.ZLIB, 0)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_package(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", no_package)
    with pytest.raises(InvalidArgumentError, match="pip install lz4"):
        inflate(b"x", CompressionType.LZ4)
