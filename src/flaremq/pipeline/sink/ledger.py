"""What a store holds of a write stream, by the unique keys of its messages; for stores that nobody else writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.message.write_stream import NOTHING_STORED, Stored, chain_of, count_stored, unique_key


class StoreLedger:
    """``query`` finds messages by topic and key; ``place`` names the store in errors."""

    def __init__(self, query: Callable[[str, str], Iterable[MessageExt]], place: str) -> None:
        self._query = query
        self._place = place

    def count(self, topic: str, stem: str, *, is_delayed: bool = False) -> int:
        """How many messages of the stream are stored."""
        return count_stored(lambda number: self._find(topic, stem, number, is_delayed) is not None, self._place)

    def stored(self, topic: str, stem: str) -> Stored:
        """The same with the digest at the last of them."""
        count = self.count(topic, stem)
        return Stored(count, self.chain(topic, stem, count - 1)) if count else NOTHING_STORED

    def chain(self, topic: str, stem: str, number: int) -> int:
        message = self._find(topic, stem, number, False)
        assert message is not None, "nobody writes the store: what was found stays"
        return chain_of(bytes(message.raw_properties))

    def _find(self, topic: str, stem: str, number: int, is_delayed: bool) -> MessageExt | None:
        key = unique_key(stem, number)
        topics = (SCHEDULE_TOPIC, topic) if is_delayed else (topic,)  # it leaves the former when it is due
        return next((message for name in topics for message in self._query(name, key) if message.uniq_key == key), None)
