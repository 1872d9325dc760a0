"""Growth: whether topics got something while their queues were looked through turn by turn.

A topic may have tens of thousands of queues. Looking at all of them for one pop would keep the loop from everybody
else, so it is let go in between; what arrives meanwhile in a queue already looked at must not be missed before the pop
waits for arrivals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Watch:
    """One look through some topics."""

    __slots__ = ("has_grown", "topics")

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self.has_grown = False


class Growth:
    """All looks under way. Event loop only."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()

    @contextmanager
    def watch(self, topics: Iterable[str]) -> Iterator[Watch]:
        """Within, the watch sees what the topics get."""
        watch = Watch(topics)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    def arrived(self, touched: set[tuple[str, int]]) -> None:
        """Queues grew."""
        for watch in self._watches:
            watch.has_grown = watch.has_grown or any(topic in watch.topics for topic, _ in touched)

    def available(self, topic: str, group: str, queue_id: int) -> None:
        """A group may take from a queue again."""
        for watch in self._watches:
            watch.has_grown = watch.has_grown or topic in watch.topics
