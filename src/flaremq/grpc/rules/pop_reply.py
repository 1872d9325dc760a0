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

    def receipt(self, record: MessageExt) -> Receipt:
        """The receipt of a message of the reply."""
        physical = str(record.physical_offset)
        words = record.properties.get(_POP_CK, "").split(" ")
        if len(words) >= 8:
            return Receipt.parse_words([*words[:8], physical])
        start = self._starts.get((NORMAL, str(record.queue_id)))
        return Receipt(
            record.queue_offset if start is None else int(start),
            self._pop_time,
            self._invisible_time,
            self._revive_queue_id,
            NORMAL,
            self._broker,
            record.queue_id,
            record.queue_offset,
            record.physical_offset,
        )

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
