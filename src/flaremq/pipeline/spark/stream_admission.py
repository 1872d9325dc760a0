"""What Spark 4.2 added to streaming sources: read limits that the engine hands over, and Trigger.AvailableNow."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from flaremq.pipeline.spark.stream_reader import StreamReader
from flaremq.pipeline.spark.told_errors import told_plainly


@told_plainly
class AdmittingStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream whose batches the engine bounds."""

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_offsets_per_trigger:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.max_bytes_per_trigger:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        extents = self._ask_source(self._refresh_extents)
        self._target = {queue: extent.max_offset for queue, extent in extents.items()}
