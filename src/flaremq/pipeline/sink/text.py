"""Texts of a sink's rows: which can be stored, and which row it is that has one that cannot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.sink.byte_column import ByteColumn

_SHOWN = 60


class RowError(InvalidArgumentError):
    """A row that cannot be written; ``row`` is its number in the batch."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row} {why}")
        self.row = row


def as_binary(column: pa.Array) -> pa.Array:
    """Texts or bytes as large_binary."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    return column.cast(pa.large_binary())


def check_utf8(texts: pa.Array, what: str, row_of: Callable[[int], int] = int) -> None:
    """Refuse bytes that are no UTF-8: Spark's strings may hold any, and every reader would see something else.

    ``row_of`` gives the row of a text by its number.
    """
    texts = as_binary(texts)
    try:
        texts.cast(pa.large_string())  # looks at all of them
        return
    except pa.ArrowInvalid:
        pass
    for at, text in enumerate(texts.to_pylist()):
        try:
            str(text or b"", "utf-8")
        except UnicodeDecodeError:
            raise RowError(row_of(at), f"has {what} {text[:_SHOWN]!r}, which is no UTF-8") from None


def check_texts(texts: pa.Array, what: str, row_of: Callable[[int], int] = int) -> None:
    """Refuse what no property can hold, and bytes 0 to 2: they separate properties, or end a record as far as
    recovery can tell. There must be no nulls."""
    check_utf8(texts, what, row_of)
    column = ByteColumn.of(as_binary(texts))
    low = column.data[int(column.offsets[0]) : int(column.offsets[-1])] <= 2
    if low.any():
        at = int(np.argmax(low)) + int(column.offsets[0])
        number = int(np.searchsorted(column.offsets, at, "right")) - 1
        text = bytes(column.data[int(column.offsets[number]) : int(column.offsets[number + 1])])
        raise RowError(
            row_of(number), f"has {what} {text[:_SHOWN]!r} with a byte 0, 1 or 2, which separates properties"
        )
