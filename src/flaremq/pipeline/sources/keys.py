"""Rows that have one of some keys, where no index tells which: in an archive, and in queues that are read for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.message.properties import UNIQUE_KEY, split_keys


def having_key(rows: pa.RecordBatch, wanted: frozenset[str]) -> pa.Array:
    """Whether each row has one of these keys, as KEYS item or unique key, by its ``keys`` and ``properties``."""
    keys, names = rows.column("keys"), pa.array(sorted(wanted), pa.string())
    found = pc.fill_null(pc.is_in(keys, names), False).to_numpy(zero_copy_only=False).copy()
    # Most keys are one word, which is compared whole; only the others are taken apart.
    several = np.flatnonzero(pc.fill_null(pc.match_substring(keys, " "), False).to_numpy(zero_copy_only=False))
    for row, text in zip(several.tolist(), keys.take(pa.array(several)).to_pylist(), strict=True):
        found[row] = found[row] or not wanted.isdisjoint(split_keys(text))
    properties = rows.column("properties")
    bounds = np.frombuffer(properties.buffers()[1], np.int32)[properties.offset :][: len(rows) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    matched = pc.and_(
        pc.equal(properties.keys[first:last], UNIQUE_KEY), pc.is_in(properties.items[first:last], names)
    ).to_numpy(zero_copy_only=False)
    found[np.searchsorted(bounds, np.flatnonzero(matched) + first, side="right") - 1] = True
    return pa.array(found)
