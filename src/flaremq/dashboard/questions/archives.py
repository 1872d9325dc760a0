"""Archives in folders that were named when the dashboard was started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from flaremq.errors import FlareMQError
from flaremq.visible import visible


async def archive_rows(folders: Iterable[str]) -> list[dict[str, Any]]:
    """What their manifests say; read on a thread, for they may be long."""
    return [await asyncio.to_thread(_row, folder) for folder in folders]


def _row(folder: str) -> dict[str, Any]:
    from flaremq.pipeline.archive.manifest import Manifest

    row: dict[str, Any] = {"id": folder, "path": folder, "topics": None, "messages": None, "bytes": None}
    row |= {"newest_ms": None, "error": None}
    try:
        files = Manifest.load(folder).files
    except (FlareMQError, OSError) as error:
        return row | {"error": visible(str(error))}
    return row | {
        "topics": len({file.topic for file in files}),
        "messages": sum(file.rows for file in files),
        "bytes": sum(file.size_bytes for file in files),
        "newest_ms": max((run.max_ms for file in files for run in file.runs if run.max_ms >= 0), default=None),
    }
