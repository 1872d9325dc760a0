"""FollowedDeletions: queues of topics that the master has deleted go here, too.

The log does not say when a topic is deleted. Dispatch of a replica tells by the first message of a queue that had
others before. What it cannot tell, the master is asked: whether a topic that its table lacks is gone, and whether a
queue without a new message is one of the earlier life.

A queue of ours is of an earlier life if the master shows less of it than we do, although it shows the place of the log
where our last message of it stands. That it shows that place is sure in two cases: it shows another queue of the topic
as far as we do, up to a later place; or its table has no such topic, and its log ended behind that place before it said
so. Nothing is deleted because of a missing topic alone: a table may be lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.broker.metadata_copy.master_tables import MasterTables
from flaremq.broker.store_loop.access import StoreAccess, run_to_end
from flaremq.errors import FlareMQError
from flaremq.message.topics import is_dlq_topic, is_retry_topic, is_system_topic
from flaremq.storage.engine.inspection import QueueEnd

_log = logging.getLogger(__name__)
_TOPICS_AT_ONCE: Final = 64  # asked for in one round; the next one goes on
_QUEUES_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class DeletionNews:
    """What one round of copying tells."""

    noted: Mapping[str, int]  # deletions known here before the master was asked for anything
    missing: Collection[str]  # topics that have queues here and are not in the master's table
    log_end: int  # of the master, before it was asked for its table


class FollowedDeletions:
    """Follows the deletions of one master after the other. Event loop only."""

    def __init__(self, store_loop: StoreAccess) -> None:
        self._store_loop = store_loop
        self._seen = self.noted  # by ``take_new``; what an earlier process noted is no news
        self._settled: dict[str, int] = {}  # deletions of which no queue is in doubt

    @property
    def noted(self) -> Mapping[str, int]:
        """The deletions the store knows, as they are now."""
        return self._store_loop.store.inspector.deletions()

    async def missing(self, table: Collection[str]) -> list[str]:
        """Topics that have queues here and are not in a master's table, but would be if they existed."""
        topics = await self._store_loop.run(self._store_loop.store.inspector.topics)
        return sorted(
            topic
            for topic in topics
            if topic not in table and not (is_system_topic(topic) or is_retry_topic(topic) or is_dlq_topic(topic))
        )

    def take_new(self, news: DeletionNews) -> list[str]:
        """Topics that were deleted since this was asked the last time."""
        seen, self._seen = self._seen, news.noted
        return [topic for topic, end in news.noted.items() if seen.get(topic, 0) < end]

    async def follow(self, master: MasterTables, news: DeletionNews) -> None:
        """Delete the queues of which the master's answers say that they are of an earlier life."""
        noted = {topic: end for topic, end in news.noted.items() if self._settled.get(topic) != end}
        self._settled = {topic: end for topic, end in self._settled.items() if news.noted.get(topic) == end}
        topics = [*news.missing, *(topic for topic in noted if topic not in news.missing)][:_TOPICS_AT_ONCE]
        if not topics:
            return
        queues = self._store_loop.store.inspector.ends(set(topics))
        for topic in topics:
            try:
                end, is_sure = await self._old_end(master, topic, queues.get(topic, []), news)
                if end:
                    await run_to_end(self._store_loop, self._store_loop.store.follow_deletion, topic, end)
            except FlareMQError as error:
                _log.warning("whether topic %s was deleted is not known yet: %s", topic, error)
                return  # the next round asks again
            if is_sure and topic in noted:
                self._settled[topic] = noted[topic]

    async def _old_end(
        self, master: MasterTables, topic: str, queues: list[QueueEnd], news: DeletionNews
    ) -> tuple[int, bool]:
        """Where the last record of the topic's earlier life ends that a queue here shows, 0 if none does; and whether
        no queue is in doubt."""
        lacking = await _lacking(master, topic, queues)
        passed = max((queue.log_end for queue in queues if queue not in lacking), default=0)
        if topic in news.missing and not passed:
            passed = news.log_end
        # Asked again: the master showed that place before it gave these answers.
        old = await _lacking(master, topic, [queue for queue in lacking if queue.log_end <= passed])
        return max((queue.log_end for queue in old), default=0), not lacking


async def _lacking(master: MasterTables, topic: str, queues: list[QueueEnd]) -> list[QueueEnd]:
    """Those of the queues of which the master shows less."""
    found = []
    for at in range(0, len(queues), _QUEUES_AT_ONCE):
        part = queues[at : at + _QUEUES_AT_ONCE]
        offsets = await asyncio.gather(*(master.max_offset(topic, queue.queue_id) for queue in part))
        found += [queue for queue, offset in zip(part, offsets, strict=True) if offset < queue.end]
    return found
