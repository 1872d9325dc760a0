"""Filters on what a record says of itself: its tag and its keys, compared as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flaremq.core.arrays import Bytes, Integers
from flaremq.core.table import KEYS_AT, KEYS_LENGTH, TAGS_AT, TAGS_LENGTH, UNIQUE_KEY_AT, UNIQUE_KEY_LENGTH
from flaremq.message.properties import KEYS, TAGS, UNIQUE_KEY
from flaremq.storage.arrow.bodies import Row
from flaremq.storage.arrow.columns import gathered


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Messages with one of these tags and one of these keys; an empty set asks for nothing."""

    tags: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.tags or self.keys)

    def keeps(self, message: Row) -> bool:
        properties = message.properties
        if self.tags and properties.get(TAGS) not in self.tags:
            return False
        if not self.keys:
            return True
        return properties.get(UNIQUE_KEY) in self.keys or not self.keys.isdisjoint(properties.get(KEYS, "").split(" "))

    def choose(self, log: Bytes, rows: Integers) -> Integers:
        """The rows that pass."""
        count = rows.shape[1]
        if not self or not count:
            return rows
        kept = np.ones(count, bool)
        if self.tags:
            kept &= _among(_texts(log, rows, TAGS_AT, TAGS_LENGTH), self.tags)
        if self.keys:
            words = _texts(log, rows, KEYS_AT, KEYS_LENGTH)
            unique = _texts(log, rows, UNIQUE_KEY_AT, UNIQUE_KEY_LENGTH)
            kept &= _among(unique, self.keys) | _any_word(words, self.keys)
        return rows if kept.all() else np.ascontiguousarray(rows[:, kept])


def _texts(log: Bytes, rows: Integers, at: int, length: int) -> pa.Array:
    # As bytes: a record's text may not be UTF-8, and then equals no text anybody asks for.
    return gathered(log, rows[at], rows[length], pa.binary(), nullable=True)


def _among(texts: pa.Array, wanted: frozenset[str]) -> NDArray[np.bool_]:
    import pyarrow.compute as pc  # takes long, and few scans come here

    values = pa.array(sorted(text.encode("utf-8", "surrogatepass") for text in wanted), pa.binary())
    return np.asarray(pc.is_in(texts, value_set=values), bool)


def _any_word(texts: pa.Array, wanted: frozenset[str]) -> NDArray[np.bool_]:
    import pyarrow.compute as pc

    found = _among(texts, wanted)
    words = pc.split_pattern(texts.cast(pa.large_binary()), pattern=b" ")
    matches = _among(words.flatten().cast(pa.binary()), wanted)
    found[np.asarray(pc.list_parent_indices(words))[matches]] = True
    return found
