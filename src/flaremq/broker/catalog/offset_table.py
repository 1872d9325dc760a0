"""Offsets by group, topic and queue, of which a snapshot costs next to nothing.

A broker saves hundreds of thousands of offsets every few seconds, and few of them have changed. So a snapshot copies
only the outermost dictionary; the inner ones are handed out as they are, and from then on nobody changes them: the
first change of a topic's offsets after a snapshot goes into a copy of that topic's dictionary.
"""

from __future__ import annotations

Queues = dict[int, int]
Table = dict[str, dict[str, Queues]]  # group, topic, queue


class OffsetTable:
    """One table. Read ``groups`` as you like, change it through the methods only."""

    __slots__ = ("_own_queues", "_own_topics", "count", "groups")

    def __init__(self, groups: Table | None = None) -> None:
        self.groups: Table = {} if groups is None else groups
        self.count = sum(len(queues) for topics in self.groups.values() for queues in topics.values())
        # What no snapshot has: the dictionaries of these groups, and of these (group, topic).
        self._own_topics: set[str] = set()
        self._own_queues: set[tuple[str, str]] = set()

    def find(self, group: str, topic: str, queue_id: int) -> int:
        """The offset, -1 if there is none."""
        try:
            return self.groups[group][topic][queue_id]
        except KeyError:
            return -1

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        if (group, topic) in self._own_queues:
            queues = self.groups[group][topic]
        else:
            queues = self._owned_queues(group, topic)
        self.count += queue_id not in queues
        queues[queue_id] = offset

    def remove_group(self, group: str) -> dict[str, Queues]:
        """Forget a group; what it had."""
        removed = self.groups.pop(group, {})
        self._own_topics.discard(group)
        for topic, queues in removed.items():
            self.count -= len(queues)
            self._own_queues.discard((group, topic))
        return removed

    def remove_topic(self, topic: str) -> dict[str, Queues]:
        """Forget a topic; what each group had."""
        removed = {group: topics[topic] for group, topics in self.groups.items() if topic in topics}
        for group, queues in removed.items():
            self.count -= len(queues)
            self._own_queues.discard((group, topic))
            topics = self._owned_topics(group)
            del topics[topic]
            if not topics:
                del self.groups[group]
                self._own_topics.discard(group)
        return removed

    def snapshot(self) -> Table:
        """The table as it is now, for any thread; nobody may change it."""
        self._own_topics = set()
        self._own_queues = set()
        return dict(self.groups)

    def _owned_topics(self, group: str) -> dict[str, Queues]:
        if group not in self._own_topics:
            self._own_topics.add(group)
            self.groups[group] = dict(self.groups.get(group, ()))
        return self.groups[group]

    def _owned_queues(self, group: str, topic: str) -> Queues:
        self._own_queues.add((group, topic))
        topics = self._owned_topics(group)
        queues = topics[topic] = dict(topics.get(topic, ()))
        return queues
