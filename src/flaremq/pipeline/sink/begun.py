"""When a micro-batch was begun, by the checkpoint of its query.

Spark writes the offsets of a batch down before it is tried the first time, with the time. What a broker deleted since
may have been rows of this batch.
"""

from __future__ import annotations

import os

import orjson
from pyarrow import fs


def batch_begun_ms(checkpoint: str, batch_id: int) -> int:
    """A time before the first attempt at a batch; 0 where that cannot be read, as on executors without the folder."""
    if not checkpoint:
        return 0
    try:
        if "://" in checkpoint:
            files, base = fs.FileSystem.from_uri(checkpoint)
        else:
            files, base = fs.LocalFileSystem(), os.path.abspath(checkpoint.removeprefix("file:"))
        with files.open_input_stream(f"{base}/offsets/{batch_id}") as file:
            lines = file.read().splitlines()
        return max(0, int(orjson.loads(lines[1])["batchTimestampMs"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return 0
