"""Where both sides write Parquet to, and the stream that does it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from benchmarks.timing import Row


def cleared(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def parquet_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def run_to_end(stream: Any, out: Path) -> Row:
    """Everything there is, by ``AvailableNow``, into Parquet below ``out``."""
    writer = stream.writeStream.format("parquet").option("path", str(out / "rows"))
    query = writer.option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return {"batches": len(query.recentProgress), "out_bytes": parquet_bytes(out / "rows")}
