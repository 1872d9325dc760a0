"""The log, its queues and its index held against each other record by record, without the compiled kernels.

Each record must be whole, must be in its queue at its offset, and must be found under its keys; what queues and index
say beyond that is surplus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.outlook import redispatch_start
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.dispatch.record_views import expected_index_hashes, expected_units, tag_index_hash
from flaremq.storage.log.walk import RecordBatch
from flaremq.storage.verify.finding import Finding, Summary
from flaremq.storage.verify.index import IndexChecker
from flaremq.storage.verify.log import LogChecker
from flaremq.storage.verify.queues import QueueChecker


def check_plainly(
    reader: StoreReader,
    summary: Summary,
    delay_levels: DelayLevels,
    on_progress: Callable[[int], None] | None,
) -> Iterator[Finding]:
    """One walk over the log that feeds the checkers of queues and index."""
    log = LogChecker(reader, summary, on_progress)
    redispatch_from = redispatch_start(reader, reader.log_end)
    queues = QueueChecker(
        reader,
        reader.queues,
        redispatch_from=redispatch_from,
        known_topics=reader.known_topics,
        damaged=log.damaged,
    )
    index = IndexChecker(reader, redispatch_from=redispatch_from, damaged=log.damaged)

    def check_views(batch: RecordBatch) -> None:
        for offset, record in batch.records():
            message = MessageExt(record)
            timestamp = message.store_timestamp
            for unit in expected_units(message, delay_levels):
                queues.check(unit, physical_offset=offset, size=len(record), store_timestamp=timestamp)
            index.check(
                expected_index_hashes(message),
                tag_hash=tag_index_hash(message),
                physical_offset=offset,
                store_timestamp=timestamp,
            )

    yield from log.check(reader.walk(bulk=False), check_views)
    yield from queues.findings(log_end=summary.log_end)
    yield from index.findings()
    summary.units, summary.index_entries = queues.units, index.entries
    summary.contradicted |= queues.contradicted | index.contradicted
