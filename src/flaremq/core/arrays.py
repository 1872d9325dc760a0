"""NumPy arrays over buffers, and their names in signatures. The core itself takes any buffer and needs no NumPy."""

from __future__ import annotations

from array import array
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]
ArrowOffsets: TypeAlias = npt.NDArray[np.int32]
Buffer: TypeAlias = "bytes | bytearray | memoryview | array[int] | Bytes"


def as_array(buffer: bytes | bytearray | memoryview) -> Bytes:
    """The bytes of a buffer as an array over the same memory; read-only if the buffer is."""
    return np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)
