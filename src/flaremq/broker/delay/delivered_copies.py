"""Which waiting messages were delivered already, read off the log.

Progress is saved every few seconds; what was delivered since then stands in the log alone. Each save notes a place in
the log such that exactly the deliveries before it are counted. When a broker starts, what lies behind that place is
searched for deliveries, and the messages they were made of are not delivered again, however often it is killed.

A delivery is recognised by its content: it has topic, queue, body, flags, properties, born time and host of what would
be put for the waiting message now; only the properties that tell when it was delivered are left out. Messages that are
alike in all of this are interchangeable, so copies are counted. A dead letter names the record it was made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import (
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_ROLL_TIMES,
    find_property,
    parse_properties,
)
from flaremq.message.stored_form import StoredForm
from flaremq.message.sys_flag import STORE_HOST_V6
from flaremq.message.topics import dlq_topic
from flaremq.storage.message_store import MessageStore

SEARCHED_BYTES_MAX: Final = 64 << 20  # progress is saved again when the log has grown by this, whatever else happened
_OF_THE_MOMENT: Final = (TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS)
_DEAD_LETTER_MARK: Final = names.DLQ_ORIGIN_MESSAGE_ID.encode() + b"\x01"

Forms = Callable[[MessageExt], Iterable[StoredForm | None]]  # all that might have been put for a waiting record


class DeliveredCopies:
    """Deliveries found in a stretch of the log, to be matched with the messages that wait."""

    def __init__(self, waiting_topic: str, forms: Forms) -> None:
        self._waiting_topic = waiting_topic
        self._dead_letter_topic = dlq_topic(waiting_topic)
        self._forms = forms
        self._copies: Counter[bytes] = Counter()
        self._set_aside: set[str] = set()  # ids of waiting records

    def __len__(self) -> int:
        return len(self._copies) + len(self._set_aside)

    def read(self, store: MessageStore, start: int, end: int, mark: str) -> None:
        """Find deliveries in [start, end) of the log; all of them but dead letters carry the property ``mark``."""
        for record in store.inspector.find_records(start, end, (mark.encode() + b"\x01", _DEAD_LETTER_MARK)):
            if record.topic == self._dead_letter_topic:
                self._set_aside.add(record.properties.get(names.DLQ_ORIGIN_MESSAGE_ID, ""))
            elif self._is_delivery(record) and mark in record.properties:
                self._copies[_identity(StoredForm.of_record(record))] += 1

    def _is_delivery(self, record: MessageExt) -> bool:
        if record.topic == self._waiting_topic:
            return find_property(bytes(record.raw_properties), TIMER_ROLL_TIMES.encode()) is not None
        place = (record.properties.get(names.REAL_TOPIC), record.properties.get(names.REAL_QUEUE_ID))
        return place == (record.topic, str(record.queue_id))

    def take(self, record: MessageExt) -> bool:
        """Whether a waiting message was delivered; each delivery counts for one message."""
        if record.message_id in self._set_aside:
            self._set_aside.remove(record.message_id)
            return True
        if not self._copies:
            return False
        try:
            for form in self._forms(record):
                if form is not None and (identity := _identity(form)) in self._copies:
                    self._copies[identity] -= 1
                    if not self._copies[identity]:
                        del self._copies[identity]
                    return True
        except (InvalidArgumentError, CorruptionError):
            pass  # it can only have become a dead letter
        return False


def _identity(form: StoredForm) -> bytes:
    properties = parse_properties(form.properties)
    for name in _OF_THE_MOMENT:
        properties.pop(name, None)
    rest = (
        form.topic,
        form.queue_id,
        form.flag,
        form.sys_flag & ~STORE_HOST_V6,
        form.born_timestamp,
        form.born_host,
        form.reconsume_times,
        sorted(properties.items()),  # RocketMQ may write them in another order
    )
    digest = blake2b(repr(rest).encode(), digest_size=16)
    digest.update(form.body)
    return digest.digest()
