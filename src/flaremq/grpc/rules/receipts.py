"""Receipt handles: what a client shows to settle a message it was given.

    startOffset popTime invisibleTime reviveQueueId kind brokerName queueId offset commitLogOffset seal

The first nine words are those of RocketMQ's proxy (the first eight are a broker's receipt of POP); ``kind`` says where
the message was read: 0 its topic, 1 the group's retry topic for it, 2 the same under the newer name. The seal is ours:
it is made of the words, the topic and the group with a key that no client has, so a handle cannot be made up, and one
that was given to a group settles nothing for another.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from typing import Final, NamedTuple

from flaremq.grpc.messages.enums import Code
from flaremq.grpc.rules.status import Refused
from flaremq.message.topics import RETRY_PREFIX, is_pop_retry_topic_v2, pop_retry_topic, pop_retry_topic_v2

NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
ORDER_REVIVE_QUEUE: Final = 999
_WORDS: Final = 9
_TEXT_MAX: Final = 1024
_SEAL_BYTES: Final = 12
_BLOCK_BYTES: Final = 64  # of SHA-256
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


class Receipt(NamedTuple):
    """The nine words of a handle."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    kind: str
    broker: str
    queue_id: int
    offset: int
    physical_offset: int

    @property
    def is_order(self) -> bool:
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    @property
    def visible_at(self) -> int:
        """When the message may be given to somebody else."""
        return self.pop_time + self.invisible_time

    @property
    def extra_info(self) -> str:
        """What the broker is told: its own words of the handle."""
        return " ".join(map(str, self[:8]))

    def real_topic(self, topic: str, group: str) -> str:
        """The topic the message was read from, by the one that the client asked for."""
        if self.kind == RETRY_V1:
            return pop_retry_topic(group, topic)
        if self.kind == RETRY_V2:
            return pop_retry_topic_v2(group, topic)
        return topic

    @classmethod
    def parse_words(cls, words: list[str]) -> Receipt:
        """Words of a handle, or of a broker's receipt with the place in the log added; ValueError if they are not."""
        start, pop_time, invisible, revive_queue, kind, broker, queue_id, offset, physical = words
        if kind not in (NORMAL, RETRY_V1, RETRY_V2):
            raise ValueError("no such kind")
        return cls(
            int(start),
            int(pop_time),
            int(invisible),
            int(revive_queue),
            kind,
            broker,
            int(queue_id),
            int(offset),
            int(physical),
        )


def kind_of(topic: str) -> str:
    """The kind of messages read from this topic."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if is_pop_retry_topic_v2(topic) else RETRY_V1


class ReceiptSeal:
    """Makes handles and recognizes its own."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("the key of a seal has at least 16 bytes")
        # HMAC-SHA256 as far as the key alone decides: to go on from here takes half the time of hmac.digest.
        block = (hashlib.sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(block.translate(_INNER))
        self._outer = hashlib.sha256(block.translate(_OUTER))

    def handle(self, receipt: Receipt, topic: str, group: str) -> str:
        """The text a client gets."""
        text = " ".join(map(str, receipt))
        return f"{text} {self.seal(text.encode(), topic.encode(), group.encode()).decode()}"

    def parse(self, handle: str, topic: str, group: str) -> Receipt:
        """The words of a handle that was given for this topic to this group; Refused if it was not."""
        text, _, seal = handle.rpartition(" ")
        words = text.split(" ")
        if len(handle) > _TEXT_MAX or len(words) != _WORDS or not handle.isascii():
            raise Refused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle cannot be read")
        if not self.is_own(text.encode(), seal.encode(), topic.encode(), group.encode()):
            raise Refused(
                Code.INVALID_RECEIPT_HANDLE, "the receipt handle was not given for this topic to this consumer group"
            )
        return Receipt.parse_words(words)

    def is_own(self, text: bytes, seal: bytes, topic: bytes, group: bytes) -> bool:
        """Whether words were given with this seal for this topic to this group."""
        return hmac.compare_digest(seal, self.seal(text, topic, group))

    def seal(self, text: bytes, topic: bytes, group: bytes) -> bytes:
        """What follows the words of a handle for this topic and group."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(b"%b\n%b\n%b" % (text, topic, group))
        outer.update(inner.digest())
        return b2a_base64(outer.digest()[:_SEAL_BYTES], newline=False).translate(_URL_SAFE)
