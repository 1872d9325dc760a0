"""A column of bytes as Arrow lays it out, for kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Integers = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class ByteColumn:
    """Pieces of bytes end to end; piece ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    data: Bytes
    offsets: Integers

    @classmethod
    def of(cls, array: pa.Array) -> ByteColumn:
        """A large_binary array without nulls; nothing is copied."""
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        return cls(content, bounds)

    @property
    def lengths(self) -> Integers:
        return np.diff(self.offsets)
