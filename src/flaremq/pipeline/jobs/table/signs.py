"""Signs of messages: numbers by which a table knows the last message of a queue again.

Place in the log and time of storing together: in a log that is written anew with messages of the same sizes each of
them stands where another one stood, but not since the same moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, Source
from flaremq.pipeline.model.spans import QueueRef, Span

_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "physicalOffset", "storeTimestamp")


def signs_before(source: Source, ends: Mapping[QueueRef, int]) -> dict[QueueRef, int]:
    """The sign of the message right before each of these offsets, where there is one that can be read."""
    places = [Span(queue, end - 1, end) for queue, end in sorted(ends.items()) if end > 0]
    request = ReadRequest(schema_of(_COLUMNS), fail_on_data_loss=False)
    found = {}
    for batch in source.read(places, request) if places else ():
        for row in batch.to_pylist():
            queue = QueueRef(row["topic"], row["brokerName"], row["queueId"])
            found[queue] = _sign(row["physicalOffset"], round(row["storeTimestamp"].timestamp() * 1000))
    return found


def _sign(physical: int, stored_ms: int) -> int:
    """Above 0, and small enough for a number in JSON and in Delta's log."""
    digest = hashlib.blake2b(f"{physical}/{stored_ms}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") or 1
