"""The reply to POP_MESSAGE: what the receipts of its messages are made of.

A broker does not tell the receipt of each message. It gives the time of the pop and, per queue, the first offset it
looked at; only messages of retry topics carry theirs as a property.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flaremq.grpc.rules.receipts import NORMAL, Receipt
from flaremq.message.message_ext import MessageExt

_POP_CK: Final = "POP_CK"
_QUEUE_AND_OFFSET: Final = "qo"


class PopReply:
    """One reply; ValueError from whatever in it cannot be read."""

    def __init__(self, ext: Mapping[str, Any], broker: str) -> None:
        self._broker = broker
        self._pop_time = int(ext.get("popTime", 0))
        self._invisible_time = int(ext.get("invisibleTime", 0))
        self._revive_queue_id = int(ext.get("reviveQid", 0))
        self._starts = _triples(str(ext.get("startOffsetInfo") or ""))
        self._counts = _triples(str(ext.get("orderCountInfo") or ""))
        self._plain_words: dict[int, bytes] = {}  # of handles, by queue; for those that begin where the pop did

    def receipt(self, record: MessageExt) -> Receipt:
        """The receipt of a message of the reply."""
        physical = str(record.physical_offset)
        words = record.properties.get(_POP_CK, "").split(" ")
        if len(words) >= 8:
            return Receipt.parse_words([*words[:8], physical])
        return self.plain_receipt(record.queue_id, record.queue_offset, record.physical_offset)

    def plain_receipt(self, queue_id: int, queue_offset: int, physical_offset: int) -> Receipt:
        """The receipt of a message that was read from the topic itself."""
        start = self._starts.get((NORMAL, str(queue_id)))
        return Receipt(
            queue_offset if start is None else int(start),
            self._pop_time,
            self._invisible_time,
            self._revive_queue_id,
            NORMAL,
            self._broker,
            queue_id,
            queue_offset,
            physical_offset,
        )

    def plain_words(self, queue_id: int, queue_offset: int, physical_offset: int) -> bytes:
        """The words of ``plain_receipt``, as a handle has them."""
        words = self._plain_words.get(queue_id)
        if words is None:
            receipt = self.plain_receipt(queue_id, queue_offset, physical_offset)
            words = " ".join(map(str, receipt[:-2])).encode()
            if (NORMAL, str(queue_id)) in self._starts:
                self._plain_words[queue_id] = words
        return b"%b %d %d" % (words, queue_offset, physical_offset)

    @property
    def counts_deliveries(self) -> bool:
        """Whether it says how often messages were given before."""
        return bool(self._counts)

    def reconsume_times(self, record: MessageExt) -> int:
        """How often the message was given before: its own count, or that of its queue's batch in order."""
        if not self._counts:
            return record.reconsume_times
        name = f"{_QUEUE_AND_OFFSET}{record.queue_id}%{record.queue_offset}"
        found = self._counts.get((NORMAL, name)) or self._counts.get((NORMAL, str(record.queue_id)))
        return record.reconsume_times if found is None else int(found)


def _triples(text: str) -> dict[tuple[str, str], str]:
    """``r q value;r q value`` as a table."""
    table = {}
    for part in text.split(";"):
        words = part.split(" ")
        if len(words) == 3:
            table[words[0], words[1]] = words[2]
    return table
