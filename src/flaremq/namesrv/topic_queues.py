"""Which broker group has how many queues of which topic, and what may be done with them. Plain state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from flaremq.protocol.bodies.route import BROKER_QUEUES_MAX, QueueData
from flaremq.protocol.bodies.topic import PERM_READ, PERM_WRITE, TopicConfig

_log = logging.getLogger(__name__)


class TopicQueues:
    """Queue entries by topic and broker name. A topic without any entry does not exist."""

    def __init__(self) -> None:
        self.table: dict[str, dict[str, QueueData]] = {}
        self.mappings: dict[str, dict[str, Any]] = {}  # the same keys, for 5.x's static topics only; passed on unread
        self.count = 0  # entries over all topics
        self.mapping_count = 0
        self.deletions = 0  # so far: who remembers the number knows whether entries may be missing since

    def put(self, topic: str, data: QueueData) -> None:
        data = _bounded(topic, data)
        entries = self.table.setdefault(topic, {})
        self.count += data.broker_name not in entries
        entries[data.broker_name] = data

    def put_mapping(self, topic: str, broker_name: str, mapping: Any) -> None:
        mappings = self.mappings.setdefault(topic, {})
        self.mapping_count += broker_name not in mappings
        mappings[broker_name] = mapping

    def has_mapping(self, topic: str, broker_name: str) -> bool:
        return broker_name in self.mappings.get(topic, ())

    def has(self, topic: str, broker_name: str) -> bool:
        return broker_name in self.table.get(topic, ())

    def topics_of(self, broker_names: Iterable[str]) -> list[str]:
        """The topics that have queues at any of these groups."""
        names = set(broker_names)
        return [topic for topic, entries in self.table.items() if not names.isdisjoint(entries)]

    def topics_where(self, accepts: Callable[[int], bool]) -> list[str]:
        """The topics whose system flag is accepted; the flag is that of the first entry, as in RocketMQ."""
        return [topic for topic, entries in self.table.items() if accepts(next(iter(entries.values())).topic_sys_flag)]

    def delete(self, topic: str, broker_names: Iterable[str] | None = None) -> None:
        """Forget a topic, everywhere or at some groups."""
        entries = self.table.get(topic)
        if entries is None:
            return
        self.deletions += 1
        mappings = self.mappings.get(topic, {})
        for name in list(entries) if broker_names is None else broker_names:
            self.count -= entries.pop(name, None) is not None
            if name in mappings:
                del mappings[name]
                self.mapping_count -= 1
        if not entries:
            del self.table[topic]
        if not mappings:
            self.mappings.pop(topic, None)

    def drop_broker(self, broker_name: str) -> None:
        """Forget all queues of a group."""
        for topic in self.topics_of((broker_name,)):
            self.delete(topic, (broker_name,))

    def change_perms(self, broker_name: str, change: Callable[[int], int]) -> int:
        """Change the permission of all queues of a group; returns how many topics it has."""
        topics = self.topics_of((broker_name,))
        for topic in topics:
            entry = self.table[topic][broker_name]
            self.put(topic, replace(entry, perm=change(entry.perm)))
        return len(topics)


def _bounded(topic: str, data: QueueData) -> QueueData:
    """With numbers of queues that a topic can have: every client makes a list of them."""
    reads, writes = (min(max(0, n), BROKER_QUEUES_MAX) for n in (data.read_queue_nums, data.write_queue_nums))
    if (reads, writes) == (data.read_queue_nums, data.write_queue_nums):
        return data
    _log.warning(
        "broker %s has %d and %d queues of topic %s by its own account: clients are told %d and %d",
        data.broker_name,
        data.read_queue_nums,
        data.write_queue_nums,
        topic,
        reads,
        writes,
    )
    return replace(data, read_queue_nums=reads, write_queue_nums=writes)


def queue_data(broker_name: str, config: TopicConfig) -> QueueData:
    """What a route says about a topic of a broker."""
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )


def without_write(perm: int) -> int:
    return perm & ~PERM_WRITE


def with_write(perm: int) -> int:
    """Readable and writable. As in RocketMQ a queue that was closed for another reason is opened too; its broker still
    refuses."""
    return perm | PERM_READ | PERM_WRITE
