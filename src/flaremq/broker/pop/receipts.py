"""The texts in which POP travels: receipts, and the three "info" fields of a pop's reply.

A client is not told the receipt of each message. It gets the time of the pop and, per queue, the first offset looked
at and the offsets handed out, and puts the receipts together itself:

    checkPointOffset popTime invisibleTime reviveQueueId r brokerName queueId queueOffset

``r`` says where the message was read: 0 its own topic, 1 the group's retry topic for it, 2 the same under the newer
name. A ninth item, a byte of the log, may follow and is ignored. Messages of ordered pops have no check point; their
receipts carry the revive queue 999.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from flaremq.message.topics import RETRY_PREFIX, is_pop_retry_topic_v2, pop_retry_topic, pop_retry_topic_v2
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError, parse_int

ORDER_REVIVE_QUEUE: Final = 999
NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
_TEXT_MAX: Final = 1024


class Receipt(NamedTuple):
    """What a client must show to acknowledge a message."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int
    queue_offset: int

    @property
    def is_order(self) -> bool:
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    @property
    def revive_time(self) -> int:
        """When the message may be given to somebody else."""
        return self.pop_time + self.invisible_time

    @property
    def text(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """The receipt in an ext field; RequestError (code 1) if it is none. The last item may be missing."""
        items = text.split(" ") if len(text) <= _TEXT_MAX else []
        if len(items) < 7 or items[4] not in (NORMAL, RETRY_V1, RETRY_V2):
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"the receipt {text[:128]!r} is malformed")
        start, pop_time, invisible, revive_queue, retry, broker_name, queue_id = items[:7]
        return cls(
            parse_int("extraInfo", start),
            parse_int("extraInfo", pop_time),
            parse_int("extraInfo", invisible),
            parse_int("extraInfo", revive_queue),
            retry,
            broker_name,
            parse_int("extraInfo", queue_id),
            parse_int("extraInfo", items[7]) if len(items) > 7 else -1,
        )


def retry_flag(topic: str) -> str:
    """The ``r`` of messages read from this topic."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if is_pop_retry_topic_v2(topic) else RETRY_V1


def real_topic(topic: str, group: str, retry: str) -> str:
    """The topic a message was read from, by the topic its consumer asked for and its ``r``."""
    if retry == RETRY_V1:
        return pop_retry_topic(group, topic)
    if retry == RETRY_V2:
        return pop_retry_topic_v2(group, topic)
    return topic


def normal_topic(topic: str, group: str) -> str:
    """The topic a consumer asked for, by the one a message was read from."""
    for separator in "+_":
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return topic


def start_offset_info(topic: str, queue_id: int, start_offset: int) -> str:
    """One queue's part of ``startOffsetInfo``."""
    return f"{retry_flag(topic)} {queue_id} {start_offset}"


def message_offset_info(topic: str, queue_id: int, offsets: Iterable[int]) -> str:
    """One queue's part of ``msgOffsetInfo``."""
    return f"{retry_flag(topic)} {queue_id} {','.join(map(str, offsets))}"


def order_count_info(topic: str, queue_id: int, counts: dict[int, int], least: int) -> list[str]:
    """One queue's parts of ``orderCountInfo``: deliveries so far per message, and for old clients per queue."""
    flag = retry_flag(topic)
    parts = [f"{flag} qo{queue_id}%{offset} {count}" for offset, count in counts.items()]
    return [*parts, f"{flag} {queue_id} {least}"]
