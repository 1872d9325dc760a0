"""MessageTraffic: messages in and out since the start, as metrics tell them.

Beside the statistics of the last minute, hour and day because a metric's counter never falls: it outlives its topic and
group, and days without traffic. The counting rules are RocketMQ's. In: what producers send, under the topic it is
stored in (a delayed message counts for the topic it waits in, and for its own when it is due); retries and dead letters
do not count, but a retry that comes back from the delay levels does. Out: what consumers and the broker's own services
are given, pulls of retry topics left out.

Event loop thread only.
"""

from __future__ import annotations

from array import array
from typing import Final

from flaremq.message.properties import find_property
from flaremq.message.topics import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from flaremq.metrics.bounded_table import SERIES_MAX, BoundedTable
from flaremq.metrics.histogram import Histogram

SIZE_BOUNDS: Final = array("q", (1024, 4096, 524_288, 1_048_576, 2_097_152, 4_194_304))
SCHEDULE_CONSUMER: Final = "SCHEDULE_CONSUMER"  # the group under which delay levels read
_DELAYS: Final = (b"DELAY", b"TIMER_DELIVER_MS", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS")


class Incoming:
    """Messages of one kind into one topic."""

    __slots__ = ("bytes", "messages", "sizes")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.sizes = Histogram(SIZE_BOUNDS)


class Outgoing:
    """Messages of one topic to one group."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0


class Count:
    """Just a number."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class MessageTraffic:
    """Counters of one broker."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self.incoming: BoundedTable[tuple[str, str], Incoming] = BoundedTable(Incoming, series_max)  # topic, kind
        # Topic, group, and for POP whether the messages were retries.
        self.outgoing: BoundedTable[tuple[str, str, str | None], Outgoing] = BoundedTable(Outgoing, series_max)
        self.dead_letters: BoundedTable[tuple[str, str], Count] = BoundedTable(Count, series_max)  # group, topic
        self.compiled_sends = 0
        self.plain_sends = 0

    def compiled(self, topic: str, sends: int, messages: int, size: int) -> Incoming:
        """Sends of one read that compiled code has stored; the caller adds their sizes to the histogram."""
        self.compiled_sends += sends
        flow = self.incoming.get((topic, "normal"))
        if flow is None:
            flow = self.incoming.made((topic, "normal"))
        flow.messages += messages
        flow.bytes += size
        return flow

    def plain(self, topic: str, kind: str, size: int, count: int = 1) -> None:
        """A send that plain code has stored; of one message, or of a batch."""
        self.plain_sends += 1
        self.note_in(topic, kind, count, size)

    def note_in(self, topic: str, kind: str, count: int, size: int) -> None:
        """``count`` messages of ``size`` bytes came in together; their mean is what counts as a size, once."""
        flow = self.incoming.get((topic, kind))
        if flow is None:
            flow = self.incoming.made((topic, kind))
        flow.messages += count
        flow.bytes += size
        flow.sizes.observe(size // count)

    def note_sent(self, topic: str, stored_in: str, properties: bytes, size: int) -> None:
        """A producer's message for a topic was stored in that, or in one of the broker's own where it waits."""
        self.plain_sends += 1
        if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            self.note_in(stored_in, message_type(properties), 1, size)

    def note_delivered(self, properties: bytes, waited_bytes: int, topic: str, size: int) -> None:
        """A message with a delay level was due and went to its topic."""
        self.note_in(topic, message_type(properties), 1, size)
        self.note_out(SCHEDULE_TOPIC, SCHEDULE_CONSUMER, None, 1, waited_bytes)

    def note_out(self, topic: str, group: str, is_retry: str | None, count: int, size: int) -> None:
        """A group was given messages."""
        flow = self.outgoing.get((topic, group, is_retry))
        if flow is None:
            flow = self.outgoing.made((topic, group, is_retry))
        flow.messages += count
        flow.bytes += size

    def note_dead_letter(self, group: str, topic: str) -> None:
        self.dead_letters.made((group, topic)).value += 1


def message_type(properties: bytes) -> str:
    """``normal``, ``fifo``, ``delay`` or ``transaction``, by RocketMQ's rule."""
    if find_property(properties, b"TRAN_MSG") == b"true":
        return "transaction"
    if find_property(properties, b"__SHARDINGKEY") is not None:
        return "fifo"
    return "delay" if any(find_property(properties, name) is not None for name in _DELAYS) else "normal"
