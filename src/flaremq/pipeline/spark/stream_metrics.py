"""What Spark's progress of a query tells about our source, by the names that Spark's Kafka source has for it.

Spark (4.0 to 4.3) has no way for a Python source to fill ``sources[].metrics``. But the offsets are there, the newest
ones among them (from 4.2 on), so lag is arithmetic; and bytes are an observation of the query itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.planning.offsets import Offsets, from_nested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OBSERVED: Final = "flaremq"


def observed(messages: DataFrame) -> DataFrame:
    """The same frame, which counts its bytes for ``stream_metrics``: those of stored records if it has the column
    ``storeSize``, else those of bodies."""
    from pyspark.sql import functions as F

    if "storeSize" in messages.columns:
        size = F.sum("storeSize")
    elif "body" in messages.columns:
        size = F.sum(F.octet_length("body"))
    else:
        raise InvalidArgumentError("bytes are counted by the column storeSize or body, and there is neither")
    return messages.observe(_OBSERVED, F.coalesce(size, F.lit(0)).alias("bytes"))


def stream_metrics(progress: Any) -> list[dict[str, Any]]:
    """For each source of ours: rows, bytes if the frame was ``observed``, and how far the batch's end is behind.

    ``progress`` is ``query.lastProgress`` or what a listener is told of. Lag is ``None`` where Spark does not say what
    the newest offsets are (4.0 and 4.1).
    """
    told: Mapping[str, Any] = progress if type(progress) is dict else json.loads(progress.json)
    size = (told.get("observedMetrics") or {}).get(_OBSERVED)
    found = []
    for source in told["sources"]:
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if end is None:
            continue  # of somebody else
        behind = None if latest is None else {queue: max(0, latest[queue] - end.get(queue, 0)) for queue in latest}
        found.append(
            {
                "rows": source["numInputRows"],
                "bytes": None if size is None or len(told["sources"]) > 1 else size["bytes"],
                **_summed(behind),
            }
        )
    return found


def _summed(behind: Offsets | None) -> dict[str, Any]:
    names = ("offsetsBehindLatest", "minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest")
    if not behind:
        return dict.fromkeys(names)
    values = list(behind.values())
    total = sum(values)
    return dict(zip(names, (total, min(values), max(values), total / len(values)), strict=True))


def _offsets(value: Any) -> Offsets | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    try:
        return from_nested(value)
    except InvalidArgumentError:
        return None
