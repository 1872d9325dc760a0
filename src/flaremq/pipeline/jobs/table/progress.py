"""How far tables are, under a consumer group's name, so that every admin tool shows their lag.

The tables alone decide where a run goes on. The group is told afterwards: behind by a commit after a failure, never
ahead.
"""

from __future__ import annotations

from collections.abc import Mapping

from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.sources.open import source_spec
from flaremq.pipeline.spark.group_progress import ProgressWriter
from flaremq.pipeline.tables.model.coverage import Covered


class GroupReport:
    """Reports for ``consumerGroup``, if there is one. Each report has a connection of its own: minutes lie between."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._told: dict[QueueRef, int] = {}

    def check(self) -> None:
        """Raise if progress could not be kept, before anything is written."""
        if self._options.group:
            with self._writer() as writer:
                writer.check()

    def tell(self, coverage: Mapping[QueueRef, Covered]) -> None:
        """What tables cover by now; what was told already is not told again."""
        new = {queue: covered.next for queue, covered in coverage.items() if self._told.get(queue) != covered.next}
        if not self._options.group or not new:
            return
        nested: dict[str, dict[str, dict[str, int]]] = {}
        for queue, offset in new.items():
            nested.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = offset
        with self._writer() as writer:
            writer.commit(nested)
        self._told |= new

    def _writer(self) -> ProgressWriter:
        options = self._options
        return ProgressWriter(
            source_spec(options), options.group, commit_name_server=options.commit_name_server or None
        )
